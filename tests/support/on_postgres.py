"""Runs of one agent on a real Postgres and a real HTTP model server, without a cluster and with an empty market."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from secrets import token_hex
from typing import Any

from fleetagent.adapters.metrics import Metrics
from fleetagent.adapters.model.client import OpenAIModel, model_http_client
from fleetagent.adapters.model.payload import Habits
from fleetagent.adapters.model.sizes import Sizes
from fleetagent.adapters.model.waits import Timing
from fleetagent.agent.compact import Compact
from fleetagent.agent.desk import Secret, Services
from fleetagent.agent.effects import Effects
from fleetagent.agent.lifecycle import Lifecycle
from fleetagent.agent.observe import Observe
from fleetagent.agent.subject import Subject, label_prefix
from fleetagent.agent.tools import TOOLS, Tool
from fleetagent.agent.turn import Ended
from fleetagent.domain.account import Account
from fleetagent.domain.fleet import Offer, Rented
from fleetagent.domain.records import AgentRecord
from fleetagent.domain.resource import FleetAgent
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.settle import SettleLimits
from support.fakes import FakeWorlds, QuietCluster
from support.manifests import a_fleet_agent, merged
from support.rehearsal import turn_on
from support.servers import Model
from support.stores import KEY, Process


class EmptyMarket:
    """Nothing is offered, nothing is rented."""

    async def account(self) -> Account:
        return Account("7")

    async def price_rises(self) -> tuple[()]:
        return ()

    @asynccontextmanager
    async def buying(self) -> AsyncIterator[None]:
        yield

    async def machines(self) -> tuple[Rented, ...]:
        return ()

    async def offers(self, *_: Any) -> tuple[Offer, ...]:
        return ()


@dataclass
class SkippedTime:
    """Waits take no time, but the patience that they use up."""

    passed: float = 0.0
    began: float = field(default_factory=time.time)
    """Servers that ask to be left alone until a date mean the real one."""

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds

    def timing(self) -> Timing:
        return Timing(
            sleep=self.sleep, chance=lambda: 0.5, monotonic=lambda: self.passed, epoch=lambda: self.began + self.passed
        )


@dataclass
class OnPostgres:
    """One agent; `server` is the model server that answers it."""

    process: Process
    server: Model
    http: Any
    tools: tuple[Tool, ...] = TOOLS
    spec: dict[str, Any] = field(default_factory=dict)
    cluster: QuietCluster = field(default_factory=QuietCluster)
    habits: Habits = field(default_factory=Habits)
    sizes: Sizes = field(default_factory=Sizes)
    market: Any = field(default_factory=EmptyMarket)
    worker_url: str | None = None
    compact: Callable[..., Compact] = Compact

    def model(self) -> OpenAIModel:
        """The endpoint that this agent asks; whoever waits for it waits no real time."""
        return OpenAIModel(
            base_url=self.server.url,
            api_key=None,
            name=self.agent.spec.model.name,
            http=self.http,
            habits=self.habits,
            sizes=self.sizes,
            timing=SkippedTime().timing(),
        )

    @property
    def agent(self) -> FleetAgent:
        """The resource: no work is skipped, a floor of no machines, so that an empty market is enough."""
        usual = {
            "model": {"baseURL": self.server.url, "name": "qwen3.5-122b", "timeout": "20s"},
            "schedule": {"skipUnchanged": False},
            "demand": {"static": {"active": False}},
        }
        return a_fleet_agent(name=KEY.name, namespace=KEY.namespace, spec=merged(usual, self.spec))

    async def record(self) -> AgentRecord:
        """The agent's row."""
        return await self.process.agent()

    async def say(self, words: str) -> None:
        """A person's message waits for the next run."""
        await self.process.runs.persist((await self.record()).id, Trigger.FEEDBACK, f"message:{words[:40]}", words)

    async def run(self, *kinds: Trigger) -> Ended:
        """One run from claim to conclusion, as a keeper makes it."""
        process, agent = self.process, self.agent
        worlds: Any = FakeWorlds(self.model(), self.market)
        effects = Effects(process.agents, process.ledger, now)
        limits = SettleLimits(settling=timedelta(minutes=5), confirm_gone=timedelta(minutes=1))
        lifecycle = Lifecycle(process.agents, process.runs, process.ledger, effects, self.cluster, now, limits)
        services = Services(
            worlds=worlds,
            runs=process.runs,
            ledger=process.ledger,
            cluster=self.cluster,
            effects=effects,
            observe=Observe(worlds, lifecycle, process.ledger, process.runs, self.cluster, now),
            now=now,
            new_secret=a_secret,
            worker_url=self.worker_url,
            meter=Metrics(),
        )
        turn = turn_on(process.leases, process.conversation, services, self.tools, self.compact)
        lease = await process.lease()
        for kind in kinds or (Trigger.SCHEDULE,):
            await process.runs.persist(lease.agent_id, kind, f"{kind} {now().isoformat()}")
        await process.runs.interrupt_stale(lease)
        subject = Subject(agent, await self.record(), label_prefix("test", KEY))
        try:
            return await turn.take(subject, lease, lambda newest: newest)
        finally:
            await process.agents.release(lease)

    async def last(self) -> dict[str, Any]:
        """The newest run's row."""
        return (await self.process.rows("SELECT * FROM runs ORDER BY run_id DESC LIMIT 1"))[0]

    async def spent(self) -> Decimal:
        """What the model has cost today."""
        rows = await self.process.rows("SELECT usd FROM spend WHERE kind = 'model'")
        return Decimal(rows[0]["usd"]) if rows else Decimal(0)


def a_secret() -> Secret:
    """A new one each time, as labels are made of it."""
    token = token_hex(8)
    return Secret(token, f"hash of {token}")


def now() -> datetime:
    """The clock that the database keeps, too."""
    return datetime.now(UTC)  # noqa: TID251


@asynccontextmanager
async def on_postgres(process: Process, server: Model, **more: Any) -> AsyncIterator[OnPostgres]:
    """An agent without a run yet."""
    http = model_http_client()
    try:
        yield OnPostgres(process, server, http, **more)
    finally:
        await http.aclose()
