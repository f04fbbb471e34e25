"""Looks at a simulated market by the real lifecycle on a real ledger, at a clock that the test moves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx

from fleetagent.adapters.vast import NO_LIMITS, Pacer, SearchMemory, VastMarket, VastMarkets
from fleetagent.adapters.vast.recent import Recent
from fleetagent.agent.effects import Effects
from fleetagent.agent.lifecycle import Lifecycle, Look
from fleetagent.agent.subject import Subject, label_prefix
from fleetagent.domain.fleet import Fleet, Instance
from fleetagent.domain.records import Run
from fleetagent.domain.settle import SettleLimits
from support.fakes import QuietCluster
from support.ledger import an_intent
from support.manifests import a_fleet_agent
from support.servers import MARKET_KEY, Market
from support.stores import KEY, NOON, Process

PREFIX = label_prefix("test", KEY)


@dataclass
class Looks:
    """One agent that looks at its market. `spec` is its resource's."""

    process: Process
    market: Market
    client: VastMarket
    run: Run
    cluster: QuietCluster = field(default_factory=QuietCluster)
    spec: dict[str, Any] = field(default_factory=dict)
    now: datetime = NOON

    def __post_init__(self) -> None:
        process = self.process
        self.effects = Effects(process.agents, process.ledger, lambda: self.now)
        limits = SettleLimits(settling=timedelta(minutes=5), confirm_gone=timedelta(minutes=1))
        self.lifecycle = Lifecycle(
            process.agents, process.runs, process.ledger, self.effects, self.cluster, lambda: self.now, limits
        )

    async def subject(self) -> Subject:
        """The resource and its row as they are now."""
        return Subject(a_fleet_agent(spec=self.spec), await self.process.agent(), PREFIX)

    async def look(self, after: float = 30.0) -> Look:
        """One look, so many seconds after the last one."""
        self.now += timedelta(seconds=after)
        return await self.lifecycle.look(await self.subject(), self.run.lease, self.client)

    async def fleet(self, after: float = 30.0) -> tuple[Instance, ...]:
        """What a look finds, which must be a known fleet."""
        fleet = (await self.look(after)).fleet
        assert isinstance(fleet, Fleet), fleet.because
        return fleet.instances

    def a_machine(self, label: str | None, **more: Any) -> str:
        """A machine that exists on the market, and runs."""
        return str(self.market.post("machines", {"label": label, **more})["id"])

    async def a_known_machine(self, number: int = 1) -> str:
        """A machine of ours that ledger and market agree about; its market id."""
        label = f"{PREFIX}known{number}"
        provider_id = self.a_machine(label)
        (row,) = [m for m in await self.client.machines() if m.provider_id == provider_id]
        price = row.usd_per_hour or Decimal(0)
        same: dict[str, Any] = {"machine_id": row.machine_id, "gpu_name": row.gpu_name, "num_gpus": row.num_gpus}
        intent = an_intent(number, label=label, usd_per_hour=price, **same)
        action = await self.process.ledger.intend_launch(self.run, intent, self.now)
        await self.process.ledger.launched(self.run.lease, action, provider_id)
        return provider_id

    async def told(self) -> list[str]:
        """The words of all fleet events, oldest first."""
        rows = await self.process.rows("SELECT words FROM triggers WHERE kind = 'Event' ORDER BY id")
        return [row["words"] for row in rows]

    async def alerts(self) -> list[tuple[str, str]]:
        """Code and state of all alerts, oldest first."""
        rows = await self.process.rows("SELECT code, state FROM alerts ORDER BY id")
        return [(row["code"], row["state"]) for row in rows]

    def events(self, reason: str) -> list[str]:
        """Messages of the Events with this reason."""
        return [message for said, message in self.cluster.events if said == reason]


@asynccontextmanager
async def looks_at(process: Process, market: Market, **more: Any) -> AsyncIterator[Looks]:
    """An agent that has a run, on this market."""
    async with httpx.AsyncClient() as http:
        markets = VastMarkets(http, Pacer(NO_LIMITS), SearchMemory())
        markets.price_rises = Recent(0.0)
        client = markets.market(api_key=MARKET_KEY, base_url=market.base_url, worker_url_env="FLEETAGENT_URL")
        yield Looks(process, market, client, await process.start(), **more)
