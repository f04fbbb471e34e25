"""The conversation: as the model sees it now, and everything that was ever said in a session."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.tools import TOOLS
from fleetagent.domain.model import JsonObject
from fleetagent.domain.records import AgentKey
from fleetagent.domain.views import CompactionView, MessageView, SessionView
from fleetagent.entrypoints.web.page.asked import address, moment, number, word
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.prompt import prompt, run_composed
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import Standing, standing
from fleetagent.entrypoints.web.page.steps import LEFT, SPEAKERS, Step, steps
from fleetagent.ports.reading import Reading, Slice

SHOWN_AT_ONCE: Final = 300
MOST_SHOWN: Final = 2_000
"""Of a prompt of millions of tokens; the export has all of it."""
ROWS: Final = 100
COMPACTIONS: Final = 20
SESSIONS_TO_CHOOSE: Final = 50
PROMPT, EVERYTHING, TOKENS = "prompt", "everything", "tokens"

Facts = dict[str, Any]
"""What a template is given."""


@dataclass(frozen=True, slots=True)
class Said:
    """The steps of one run, among everything that was said; `compactions` made room in it."""

    run_id: int
    steps: tuple[Step, ...]
    compactions: tuple[CompactionView, ...]


def routes(parts: Parts) -> list[Route]:
    """Where the conversation is read."""

    async def conversation(request: Request) -> Response:
        stands = await standing(parts, request)
        asked, view = number(request, "session"), word(request, "view", (PROMPT, EVERYTHING, TOKENS))
        session = await parts.reading.session(stands.key, asked)
        if session is None and asked is not None:
            raise HTTPException(404, f"there is no session {asked} of {stands.key}, or its time in the audit is over")
        is_current = session is not None and session.ended_at is None
        facts: Facts = {"standing": stands, "session": session, "is_current": is_current, **_figures(stands, request)}
        if view == TOKENS:
            return html("tokens.html", **facts)
        facts |= {
            "tab": "conversation",
            "speakers": SPEAKERS,
            "left": LEFT,
            "compactions": (),
            "compactions_shown": COMPACTIONS,
        }
        if session is not None:
            view = PROMPT if is_current and view != EVERYTHING else EVERYTHING
            compactions = await parts.reading.compactions(stands.key, session.id)
            facts |= {
                "view": view,
                "compactions": compactions,
                "sessions": await _to_choose(parts.reading, stands.key, session),
            }
            if view == PROMPT:
                facts |= await _as_the_model_sees_it(parts.reading, stands, request, session)
            else:
                facts |= await _everything(parts.reading, stands.key, request, session, compactions)
        # In a thread: a long text takes many milliseconds to write, and runs go on in this process.
        return await asyncio.to_thread(html, "conversation.html", **facts)

    return [Route("/agents/{namespace}/{name}/conversation", conversation)]


def _figures(stands: Standing, request: Request) -> Facts:
    """Tokens against the budget; an open page asks for these alone, and is told when it shows an older conversation."""
    newest, seen = 0 if stands.row is None else stands.row.last_run_id, number(request, "seen")
    return {
        "here": f"{stands.path}/conversation",
        "budget": None if stands.agent is None else stands.agent.spec.context.token_budget,
        "seen": newest if seen is None else seen,
        "is_older": seen is not None and seen < newest,
    }


async def _to_choose(reading: Reading, key: AgentKey, session: SessionView) -> tuple[SessionView, ...]:
    """The newest sessions, and the one that is shown."""
    newest = (await reading.sessions(key, Slice(limit=SESSIONS_TO_CHOOSE))).items
    return newest if session.id in {s.id for s in newest} else (*newest, session)


async def _as_the_model_sees_it(reading: Reading, stands: Standing, request: Request, session: SessionView) -> Facts:
    """The prompt; of a very long one the newest runs, unless all is asked for. None while the resource is not there."""
    if stands.agent is None or stands.row is None:
        return {"prompt": None}
    most = MOST_SHOWN if request.query_params.get("all") else SHOWN_AT_ONCE
    page = await reading.conversation(stands.key, session.id, Slice(limit=most), in_prompt=True)
    stored, before = _whole_runs(page.items[::-1]) if page.next else (page.items[::-1], 0)
    run_id = run_composed(stands.row, session.id)
    made = await asyncio.to_thread(prompt, stands.agent.spec, session, stored, before=before, run_id=run_id)
    return {
        "prompt": made,
        "run_composed": run_id,
        "earlier": max(session.messages_in_prompt - len(stored), 1) if page.next else 0,
        "can_show_all": page.next is not None and most < MOST_SHOWN,
        "tools": _tools(),
    }


def _whole_runs(stored: Sequence[MessageView]) -> tuple[Sequence[MessageView], int]:
    """Without the oldest run, which may not be whole, if there is another; and the seq before the first."""
    whole = [m for m in stored if m.run_id != stored[0].run_id] or stored
    return whole, whole[0].seq - 1


@cache
def _tools() -> tuple[JsonObject, ...]:
    """The schemas that go with every request."""
    return Toolbox(TOOLS).schemas


async def _everything(
    reading: Reading, key: AgentKey, request: Request, session: SessionView, compactions: Sequence[CompactionView]
) -> Facts:
    """Some messages of the session, whether they are in the prompt or not."""
    since, until = moment(request, "since"), moment(request, "until")
    after = request.query_params.get("after") or None
    page = await reading.conversation(key, session.id, Slice(limit=ROWS, after=after, since=since, until=until))
    return {
        "page": page,
        "runs": await asyncio.to_thread(_by_run, page.items, compactions),
        "since": since,
        "until": until,
        "newest": after is None and until is None,
        "address": address("", session=session.id, view=EVERYTHING, since=since, until=until),
    }


def _by_run(messages: Sequence[MessageView], compactions: Sequence[CompactionView]) -> tuple[Said, ...]:
    runs: list[Said] = []
    for step in steps(messages):
        run_id = step.message.run_id
        if runs and runs[-1].run_id == run_id:
            runs[-1] = Said(run_id, (*runs[-1].steps, step), runs[-1].compactions)
        else:
            runs.append(Said(run_id, (step,), tuple(c for c in compactions if c.run_id == run_id)))
    return tuple(runs)
