"""Runs: the list with its filters, and one run with all that belongs to it."""

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.domain.records import HIGHEST_ID, Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.views import RunView
from fleetagent.entrypoints.web.page.asked import address, moment, word
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.prompt import RUNNING
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import Standing, standing
from fleetagent.entrypoints.web.page.steps import LEFT, SPEAKERS, steps
from fleetagent.ports.reading import Slice

ROWS: Final = 50

TRIGGERS: Final[Mapping[str, str]] = {
    Trigger.SCHEDULE: "its time had come",
    Trigger.WAKE: "a check that it had asked for was due",
    Trigger.REQUEST: "a person asked for a run",
    Trigger.EVENT: "something happened to the fleet",
    Trigger.SPEC_CHANGE: "the resource was changed",
    Trigger.FEEDBACK: "a person said something to the agent",
    Trigger.APPROVAL: "a person approved an action",
}
OUTCOMES: Final[Mapping[str, str]] = {
    Outcome.ACTED: "something was launched or stopped",
    Outcome.HELD: "looked, and left everything as it is",
    Outcome.REFUSED: "wanted to act, and every action was refused or failed",
    Outcome.WAITING: "what it wanted waits for a person",
    Outcome.UNCLEAR: "an effect is not settled yet",
    Outcome.SKIPPED: "nothing new since a quiet run; the model was not asked",
    Outcome.FAILED: "the model could not be asked, or gave nothing usable",
    Outcome.CONTEXT_FULL: "the prompt did not fit",
    Outcome.NO_PROGRESS: "the model went round in circles, and the run was ended",
    Outcome.INTERRUPTED: "suspended, reset, or the operator died; what called for the run is due again",
}


def routes(parts: Parts) -> list[Route]:
    """Where runs are read."""

    async def listed(request: Request) -> Response:
        stands = await standing(parts, request)
        outcome, trigger = word(request, "outcome", OUTCOMES), word(request, "trigger", TRIGGERS)
        since, until = moment(request, "since"), moment(request, "until")
        after = request.query_params.get("after") or None
        which = Slice(limit=ROWS, after=after, since=since, until=until)
        page = await parts.reading.runs(stands.key, which, outcome=outcome, trigger=trigger)
        here = address(f"{stands.path}/runs", outcome=outcome, trigger=trigger, since=since, until=until)
        return html(
            "runs.html",
            standing=stands,
            tab="runs",
            page=page,
            asked={"outcome": outcome, "trigger": trigger, "since": since, "until": until},
            filtered=any((outcome, trigger, since, until)),
            newest=after is None,
            address=here,
            triggers=TRIGGERS,
            outcomes=OUTCOMES,
        )

    async def one(request: Request) -> Response:
        stands = await standing(parts, request)
        run_id: int = request.path_params["run_id"]
        view = await parts.reading.run(stands.key, run_id) if run_id <= HIGHEST_ID else None
        if view is None:
            raise HTTPException(
                404, f"there is no run {run_id} of {stands.key}, or it is older than spec.retention.runs"
            )
        return await asyncio.to_thread(_drawn, stands, view)  # it may be long, and runs go on in this process

    return [
        Route("/agents/{namespace}/{name}/runs", listed),
        Route("/agents/{namespace}/{name}/runs/{run_id:int}", one),
    ]


def _drawn(stands: Standing, view: RunView) -> Response:
    return html(
        "run.html",
        standing=stands,
        tab="runs",
        run=view.run,
        view=view,
        steps=steps(view.messages),
        verdict=verdict(view),
        goes_on=view.run.state == RUNNING,
        newest=max(stands.row.last_run_id if stands.row is not None else 0, view.run.run_id),
        triggers=TRIGGERS,
        outcomes=OUTCOMES,
        speakers=SPEAKERS,
        left=LEFT,
    )


def verdict(view: RunView) -> tuple[tuple[str, bool | None, bool | None], ...]:
    """Each claim with what the model said of it and what the ledger shows; None: nothing was said."""
    said, shown = view.verdict_said or {}, view.verdict or {}
    return (
        ("launched or stopped something", _flag(said, "action"), _flag(shown, "action")),
        ("something that matters is different", _flag(said, "state_changed"), _flag(shown, "state_changed")),
    )


def _flag(verdict: Mapping[str, object], name: str) -> bool | None:
    value = verdict.get(name)
    return value if isinstance(value, bool) else None
