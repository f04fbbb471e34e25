"""A past with everything in it, written by the stores as runs write it, and the pages that show it."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx
import sqlalchemy as sa

from fleetagent.adapters.postgres.reading import PostgresReading
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Phase
from fleetagent.domain.records import Asked, Outcome, Run
from fleetagent.domain.schedule import Trigger
from support.door import MadeUpCallers
from support.ledger import launched, seen
from support.lived_fleet import HOSTILE, a_fleet_and_its_cost
from support.page import Premises, stored
from support.stores import KEY, Process

PATH = f"/agents/{KEY.namespace}/{KEY.name}"
PLAN = {
    "shortfall": 90.5,
    "launch": [{"offer_id": "7001", "gpu": "1x RTX 5090", "usd_per_hour": "0.4635", "p/h": 95.0}],
}
SUMMARY = "Fleet\nm1 (9001) proves at 94.2 p/h.\nDecisions\nLaunched one RTX 5090.\nOpen matters\nNone."


def now() -> datetime:
    """The database has this clock."""
    return datetime.now(UTC)  # noqa: TID251


@dataclass
class Pages:
    """Somebody who looks at the pages of the past, on a real database."""

    process: Process
    reading: PostgresReading
    premises: Premises
    browser: httpx.AsyncClient

    async def get(self, page: str = "", status: int = 200) -> str:
        """A page of the agent, as HTML: `get("runs?outcome=Held")`."""
        answer = await self.browser.get(f"{PATH}/{page}" if page else PATH)
        assert answer.status_code == status, f"{answer.status_code}: {answer.text[:2000]}"
        return answer.text


@asynccontextmanager
async def pages_of(process: Process, **spec: Any) -> AsyncIterator[Pages]:
    """The pages over this database, as they were when its past was told; the resource has this spec."""
    (moment,) = await process.rows("SELECT coalesce(max(billed_until), now()) AS told_at FROM instances")
    callers = MadeUpCallers()
    callers.agents[KEY] = stored(KEY, spec=spec)
    reading = PostgresReading(process.database, cluster="test")
    premises = Premises(callers=callers, past=cast("Any", reading), now=moment["told_at"])
    async with premises.client() as browser:
        yield Pages(process, reading, premises, browser)


@dataclass
class Life:
    """Writes runs one after the other."""

    process: Process
    ids: list[int] = field(default_factory=list)

    async def run(
        self,
        *said: Message,
        triggers: Sequence[tuple[Trigger, str | None]] = ((Trigger.SCHEDULE, None),),
        conclude: bool = True,
        **ending: Any,
    ) -> Run:
        """One run that said this; `run_id` of the messages is filled in."""
        agent = await self.process.agent()
        for kind, words in triggers:
            await self.process.runs.persist(agent.id, kind, f"{kind}-{len(self.ids)}", words)
        run = await self.process.start(now())
        await self.process.conversation.append(run, [_of(run, message) for message in said])
        if conclude:
            await self.process.conclude(run, **ending)
        self.ids.append(run.run_id)
        return run

    async def sql(self, query: str, **given: Any) -> None:
        """What no store does at will; `:before` is the run before the first of these."""
        async with self.process.database.transaction() as connection:
            known = {"before": self.ids[0] - 1, **given}
            named = {name: value for name, value in known.items() if f":{name}" in query}
            await connection.execute(sa.text(query), named)


def facts(words: str) -> Message:
    """An observation."""
    return Message(0, Kind.OBSERVATION, "user", words, tokens=40)


def reply(words: str, *calls: tuple[str, str, Any], original: str | None = None) -> Message:
    """The model's answer; each call is (id, name, arguments)."""
    made = tuple(ToolCall(call_id, name, json.dumps(given), original) for call_id, name, given in calls)
    return Message(0, Kind.REPLY, "assistant", words, made, tokens=20)


def result(call_id: str, value: Any, *, kept: int | None = 200) -> Message:
    """A tool's answer, of which history keeps so many characters."""
    text = json.dumps(value)
    short = f"{text[:kept]}…[cut: {len(text) - (kept or 0):,} characters]" if kept and len(text) > kept else None
    return Message(0, Kind.TOOL_RESULT, "tool", text, tool_call_id=call_id, history_content=short, tokens=30)


def _of(run: Run, message: Message) -> Message:
    return Message(
        run.run_id,
        message.kind,
        message.role,
        message.content,
        message.tool_calls,
        message.tool_call_id,
        message.history_content,
        message.tokens,
    )


async def a_life(process: Process) -> Life:
    """Eight runs: acted, quiet, refused with hostile words, alerted, compacted, failed, waiting, one that goes on."""
    life = Life(process)
    offers = {"offers": [{"offer_id": f"70{n:02}", "gpu": HOSTILE, "usd": "0.4635"} for n in range(9)]}
    acted = await life.run(
        facts("[Run #1 — 2026-11-30 12:00 UTC] Demand: active=True, queued=3. Fleet: 0 proving; below target."),
        reply("Below target. I look what is offered.", ("r1_1_0", "plan_capacity", {}), ("r1_1_1", "get_offers", {})),
        result("r1_1_0", PLAN),
        result("r1_1_1", offers),
        reply("", ("r1_2_0", "launch_instance", {"offer_id": "7001", "reason": "fills the gap of 90 p/h"})),
        result("r1_2_0", {"ok": True, "machine": "m1"}),
        reply('Launched one RTX 5090.\n{"action": true, "state_changed": true}'),
        conclude=False,
    )
    machine = await launched(process, acted)
    await seen(process, acted, machine, now(), phase=Phase.LOADING)
    await process.conclude(
        acted,
        outcome=Outcome.ACTED,
        summary="launch 9001. Launched one RTX 5090.",
        verdict={"action": True, "state_changed": True},
        verdict_said={"action": True, "state_changed": True},
        model_calls=3,
        tokens_in=9_120,
        tokens_cached=6_000,
        tokens_out=310,
    )
    await life.run(facts("[Run #2] on target"), reply("Hold."), quiet=True, summary="Hold.")
    refused = await life.run(
        Message(0, Kind.FEEDBACK, "user", HOSTILE, tokens=30),
        facts("[Run #3] Triggers: Feedback."),
        reply(HOSTILE, ("r3_1_0", "launch_instance", {"offer_id": "999", "reason": HOSTILE}), original=f"{{{HOSTILE}"),
        result("r3_1_0", {"ok": False, "error": HOSTILE, "from_strangers": ["error"]}),
        reply(f'I did it. {HOSTILE}\n{{"action": true, "state_changed": false}}'),
        triggers=((Trigger.FEEDBACK, HOSTILE),),
        conclude=False,
    )
    asked = Asked("launch", "1:1:r3_1_0", "model", {"offer_id": "999", "reason": HOSTILE})
    await process.ledger.refuse(refused, asked, Refusal("OfferNotSeen", f"offer {HOSTILE} was not shown in this run"))
    await process.conclude(
        refused,
        outcome=Outcome.REFUSED,
        summary=f"launch refused (OfferNotSeen). {HOSTILE}",
        verdict_said={"action": True, "state_changed": False},
        tokens_in=4_100,
    )
    woken = await life.run(
        facts("[Run #4] Triggers: Event. Since the last run: m1 is up."),
        reply("", ("r4_1_0", "schedule_next_check", {"minutes": 5, "reason": HOSTILE})),
        result("r4_1_0", {"ok": True, "check": 1}),
        reply("I look again in five minutes."),
        triggers=((Trigger.EVENT, "m1 is up"),),
        conclude=False,
    )
    await process.runs.ask_wake(woken, now() + timedelta(minutes=5), HOSTILE, limit=20)
    await process.conclude(woken, summary="I look again in five minutes.")
    await _compacted(process, life)
    await life.run(
        facts("[Run #6] Triggers: Schedule."),
        reply("(This run ended without an answer: ModelUnavailable.)"),
        outcome=Outcome.FAILED,
        summary="ModelUnavailable: the model server does not answer",
        error="the model server does not answer",
        reason="ModelUnavailable",
        model_calls=0,
        tokens_in=0,
        tokens_out=0,
    )
    await life.run(
        facts("[Run #7]"), reply("It waits."), outcome=Outcome.WAITING, summary="launch of 1x RTX 5090 waits"
    )
    await a_fleet_and_its_cost(life.sql)
    await life.run(
        facts("[Run #8] Triggers: Request."),
        reply("I look at the fleet.", ("r8_1_0", "get_fleet", {})),
        triggers=((Trigger.REQUEST, None),),
        conclude=False,
    )
    return life


async def _compacted(process: Process, life: Life) -> None:
    run = await life.run(facts("[Run #5]"), reply("Hold: all as planned."), conclude=False)
    leaving = [m.seq for m in await process.conversation.in_prompt(run.session_id) if m.run_id == life.ids[0]]
    await process.conversation.compact(
        run,
        method="Summary",
        because=None,
        masked_before_run=life.ids[3],
        runs_left=life.ids[:1],
        leaving_seqs=leaving,
        summary=SUMMARY,
        tokens_before=28_100,
        tokens_after=9_300,
    )
    await process.conclude(run, summary="Hold: all as planned.")
    await life.sql("UPDATE sessions SET context_tokens = 8123, estimated_tokens = 8150, next_prompt_tokens = 8300")
