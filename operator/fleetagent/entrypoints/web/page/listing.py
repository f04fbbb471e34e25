"""The FleetAgents that a visitor may read, a line each. Read once for all who look within a few seconds."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import FleetAgent, RunStatus
from fleetagent.entrypoints.web.page.recent import Recent
from fleetagent.entrypoints.web.page.standing import UNREADABLE, path_of
from fleetagent.entrypoints.web.page.state import State, state_of
from fleetagent.entrypoints.web.visitor import ALL_NAMESPACES, Visitor
from fleetagent.errors import BadResource, TryLater
from fleetagent.ports.reading import Reading

KEPT_FOR = timedelta(seconds=3)
ASKED_AT_ONCE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What the list says of one agent; figures are those of its status."""

    key: AgentKey
    state: State
    mode: str | None = None
    target: int | None = None
    measured: Decimal | None = None
    projected: Decimal | None = None
    usd_per_hour: Decimal | None = None
    budget_per_hour: Decimal | None = None
    tokens_today: int | None = None
    tokens_budget: int | None = None
    open_alerts: int = 0
    waiting: int = 0
    last_run: RunStatus | None = None
    next_run_at: datetime | None = None

    @property
    def path(self) -> str:
        """Where its pages are."""
        return path_of(self.key)


Lines = Mapping[AgentKey, Line]


class Listing:
    """Lists resources with the token of whoever comes first; the others have shown that they may read the same."""

    def __init__(self, reading: Reading, recent: Recent) -> None:
        self._reading = reading
        self._recent = recent
        self._namespaces: tuple[str, ...] | None = None

    async def namespaces(self, now: datetime) -> tuple[str, ...]:
        """Those that have an agent; which of them a visitor may read is another question.

        While the database is away, those that it named last: what is shown of each comes from the API server.
        """
        try:
            self._namespaces = await self._recent.of("namespaces", now, KEPT_FOR, self._reading.namespaces)
        except TryLater:
            if self._namespaces is None:
                raise
        return self._namespaces

    async def of(self, who: Visitor, namespaces: tuple[str, ...], now: datetime) -> Lines:
        """All in namespaces that `who` may read; `NotAllowed` for who may not list them."""
        if len(namespaces) > 1 and await who.reads(ALL_NAMESPACES):
            everywhere = await self._in(who, ALL_NAMESPACES, now)
            wanted = frozenset(namespaces)
            return {key: line for key, line in everywhere.items() if key.namespace in wanted}
        limit = asyncio.Semaphore(ASKED_AT_ONCE)

        async def one(namespace: str) -> Lines:
            async with limit:
                return await self._in(who, namespace, now)

        found = await asyncio.gather(*map(one, namespaces))
        return {key: line for lines in found for key, line in lines.items()}

    async def _in(self, who: Visitor, namespace: str, now: datetime) -> Lines:
        async def read() -> Lines:
            return {line.key: line for line in (_line(each, now) for each in await who.resources(namespace))}

        return await self._recent.of(("agents", namespace), now, KEPT_FOR, read)


def _line(stored: Mapping[str, Any], now: datetime) -> Line:
    key = AgentKey(stored["metadata"]["namespace"], stored["metadata"]["name"])
    try:
        agent = FleetAgent.stored(stored)
    except BadResource as error:
        return Line(key=key, state=State(UNREADABLE.word, UNREADABLE.tone, str(error)))
    spec, status = agent.spec, agent.status
    fleet, spend = status.fleet, status.spend
    return Line(
        key=key,
        state=state_of(agent, now),
        mode=spec.mode.value,
        target=spec.target.proofs_per_hour,
        measured=None if fleet is None else fleet.proofs_per_hour,
        projected=None if fleet is None else fleet.projected_proofs_per_hour,
        usd_per_hour=None if fleet is None else fleet.usd_per_hour,
        budget_per_hour=spec.budget.fleet_usd_per_hour,
        tokens_today=None if spend is None else spend.model_tokens_today,
        tokens_budget=spec.budget.model_tokens_per_day,
        open_alerts=status.open_alerts or 0,
        waiting=len(status.waiting_actions),
        last_run=status.last_run,
        next_run_at=status.next_run_at,
    )
