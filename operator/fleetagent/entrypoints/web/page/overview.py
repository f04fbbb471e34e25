"""/agents/{ns}/{name}: whether the fleet does its job and what it costs, at a glance; and the buttons."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import Condition
from fleetagent.domain.views import AlertView, RunRow
from fleetagent.entrypoints.web.page import plots
from fleetagent.entrypoints.web.page.buttons import done_sentence
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import Standing, key_of, shared, standing
from fleetagent.entrypoints.web.page.state import runbook_page, tone_of
from fleetagent.entrypoints.web.visitor import visitor
from fleetagent.errors import TryLater
from fleetagent.ports.reading import Slice

ALERTS_SHOWN = 5
RUNS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Past:
    """What the overview shows from the database. All empty when it cannot be asked."""

    alerts: tuple[AlertView, ...] = ()
    more_alerts: bool = False
    runs: tuple[RunRow, ...] = ()


def routes(parts: Parts) -> tuple[Route, ...]:
    """The page, the part of it that is live, its plots' figures, and what tells of changes."""

    async def facts(request: Request) -> dict[str, Any]:
        key, hours = key_of(request), plots.hours_asked(request)
        await visitor(request).must_read(key.namespace)
        stands, past = await asyncio.gather(
            standing(parts, request), shared(parts, request, "past", key, lambda: _past(parts, key))
        )
        told = _told(stands)
        unknown = any(c.type == "FleetKnown" and c.status != "True" for c, _, _ in told)
        return {"standing": stands, "past": past, "conditions": told, "fleet_unknown": unknown, "hours": hours}

    async def page(request: Request) -> Response:
        done = done_sentence(request.query_params.get("done"))
        return html("overview.html", **await facts(request), tab="overview", done=done)

    async def now(request: Request) -> Response:
        return html("overview_now.html", **await facts(request), alone=True)

    async def samples(request: Request) -> Response:
        key = key_of(request)
        await visitor(request).must_read(key.namespace)
        return JSONResponse(await plots.rates(parts, request, key))

    async def events(request: Request) -> Response:
        key = key_of(request)
        await visitor(request).must_read(key.namespace)
        return parts.live.answer(visitor(request), frozenset({key}))

    agent = "/agents/{namespace}/{name}"
    return (
        Route(agent, page),
        Route(f"{agent}/now", now),
        Route(f"{agent}/samples.json", samples),
        Route(f"{agent}/events", events),
    )


async def _past(parts: Parts, key: AgentKey) -> Past:
    try:
        alerts = await parts.reading.alerts(key, Slice(limit=ALERTS_SHOWN), state="open")
        runs = await parts.reading.runs(key, Slice(limit=RUNS_SHOWN))
    except TryLater:  # the page's head says so
        return Past()
    return Past(alerts.items, alerts.next is not None, runs.items)


def _told(stands: Standing) -> Sequence[tuple[Condition, str, str]]:
    """Each condition with its tone and its runbook page; what is not as it should be first, Ready before all."""
    if stands.agent is None:
        return ()
    order = {"bad": 0, "warn": 1, "plain": 2, "good": 3}
    told = [(c, tone_of(c), runbook_page(c.type)) for c in stands.agent.status.conditions]
    return sorted(told, key=lambda each: (each[0].type != "Ready", order[each[1]]))
