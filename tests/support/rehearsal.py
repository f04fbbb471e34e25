"""Runs of one agent without a cluster: the real story of a run on whatever memory and model a test brings."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, cast

from fleetagent.adapters.metrics import Metrics
from fleetagent.adapters.tokens import TiktokenTokens
from fleetagent.agent.compact import Compact
from fleetagent.agent.compose import Compose
from fleetagent.agent.desk import Desk, Secret, Services
from fleetagent.agent.effects import Effects
from fleetagent.agent.lease import Ownership
from fleetagent.agent.loop import Loop
from fleetagent.agent.subject import Subject
from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.tools import TOOLS, Arguments, Tool
from fleetagent.agent.turn import Ended, Turn
from fleetagent.domain.model import JsonObject
from fleetagent.domain.observation import Observation
from fleetagent.domain.records import Lease, Pulse
from fleetagent.domain.resource import FleetAgent
from fleetagent.domain.schedule import Trigger
from fleetagent.ports import Model
from support.fakes import FakeWorlds, QuietCluster
from support.fleets import NOW, an_instance, an_observation
from support.manifests import a_fleet_agent
from support.memory import Memory

LONGEST = timedelta(minutes=30)
COUNT = lru_cache(maxsize=10_000)(TiktokenTokens().estimate)


def a_tool(name: str, answer: Any) -> Tool:
    """A tool without arguments; `answer` is what it says, or a function of the desk that does something first."""

    async def said(desk: Desk, _: Arguments, __: str) -> JsonObject:
        found = await answer(desk) if callable(answer) else answer
        return cast("JsonObject", found)

    return Tool(name, f"Says what the test wants: {name}.", Arguments, said)


def turn_on(
    leases: Any,
    conversation: Any,
    services: Services,
    tools: tuple[Tool, ...],
    compact: Callable[..., Compact] = Compact,
    *,
    metrics: Metrics | None = None,
    longest: timedelta = LONGEST,
    starting: asyncio.Semaphore | None = None,
) -> Turn:
    """The real run on these parts; `compact` may watch what it does."""
    toolbox = _toolbox(tools)
    return Turn(
        ownership=Ownership(leases, timedelta(hours=1)),
        runs=services.runs,
        ledger=services.ledger,
        worlds=services.worlds,
        services=services,
        compose=Compose(conversation, COUNT, toolbox.schemas),
        loop=Loop(toolbox, compact(conversation, services.cluster, metrics or Metrics()), longest),
        now=services.now,
        starting=starting or asyncio.Semaphore(10),
    )


@lru_cache(maxsize=8)
def _toolbox(tools: tuple[Tool, ...]) -> Toolbox:
    """Schemas take some time, and are the same for all runs."""
    return Toolbox(tools)


@dataclass
class Rehearsal:
    """Runs on fakes alone. What is seen is a fleet on target, unless told otherwise."""

    model: Model | Exception
    tools: tuple[Tool, ...] = TOOLS
    spec: dict[str, Any] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    cluster: QuietCluster = field(default_factory=QuietCluster)
    seen: Observation = field(default_factory=lambda: an_observation(an_instance(), wanted=100))
    market: Any = None
    now: datetime = NOW
    metrics: Metrics = field(default_factory=Metrics)
    longest: timedelta = LONGEST
    """What a run may take, by the real clock."""
    worker_url: str | None = None
    starting: asyncio.Semaphore | None = None
    """Shared by rehearsals that start one after the other."""

    @property
    def agent(self) -> FleetAgent:
        """The resource."""
        return a_fleet_agent(spec=self.spec)

    async def observe(
        self, subject: Subject, lease: Lease, run_id: int = 0, *, market: Any = None
    ) -> tuple[Observation, Pulse]:
        """What is seen now."""
        del subject, lease, market
        return self.seen, await self.memory.pulse(1, run_id, self.now)

    async def run(self, *kinds: Trigger) -> Ended:
        """One run from claim to conclusion."""
        self.memory.call_for(*(kinds or (Trigger.SCHEDULE,)))
        memory: Any = self.memory
        observe: Any = self.observe
        worlds = FakeWorlds(self.model, self.market)
        services = Services(
            worlds=worlds,
            runs=memory,
            ledger=memory,
            cluster=self.cluster,
            effects=Effects(memory, memory, lambda: self.now),
            observe=observe,
            now=lambda: self.now,
            new_secret=lambda: Secret("token", "hash"),
            worker_url=self.worker_url,
            meter=self.metrics,
        )
        turn = turn_on(
            memory, memory, services, self.tools, metrics=self.metrics, longest=self.longest, starting=self.starting
        )
        subject = Subject(self.agent, self.memory.record(), "fa/test/")
        lease = Lease(1, self.memory.token)
        return await turn.take(subject, lease, lambda newest: newest)
