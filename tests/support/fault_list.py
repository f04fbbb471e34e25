"""One agent that lives through a fault of the catalogue: the whole engine on Postgres, a market that keeps count."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from pydantic import Field

from fleetagent.adapters.model.client import OpenAIModel, model_http_client
from fleetagent.adapters.model.gate import Gate
from fleetagent.agent.desk import Desk
from fleetagent.agent.tools import TOOLS, Arguments, Tool
from fleetagent.agent.turn import Ended
from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.fleet import Offer, Order, Rented
from fleetagent.domain.model import JsonObject, ModelRequest, Reply
from fleetagent.domain.schedule import Trigger
from fleetagent.ports.world import MayBegin, at_once
from support.fleets import an_offer, as_rented
from support.on_postgres import EmptyMarket, OnPostgres, SkippedTime
from support.servers import Model
from support.stores import a_process

KEY = "sk-0123456789-secret/+="
INTERVAL_SECONDS = 300.0
PATIENCE = timedelta(seconds=20)
OFFERS = 40
SPEC: JsonObject = {
    "target": {"proofsPerHour": 5_000},
    "demand": {"static": {"active": True}},
    "budget": {"fleetUsdPerHour": "500.00"},
    "limits": {"launchesPerRun": 1, "launchesPerHour": 1_000, "maxInstances": 500},
    "model": {"timeout": "10s", "parameters": {"temperature": 0.2}},
    "fleet": {"vast": {"offers": {"minReliability": 0.9}}},
}


@dataclass
class CountingMarket(EmptyMarket):
    """Rents whatever is asked for at once, and remembers each request to rent."""

    asked: list[str] = field(default_factory=list)
    rented: dict[str, Rented] = field(default_factory=dict)

    async def machines(self) -> tuple[Rented, ...]:
        return tuple(self.rented.values())

    async def machine(self, provider_id: str) -> Rented | None:
        return self.rented.get(provider_id)

    async def offers(self, *_: Any) -> tuple[Offer, ...]:
        return tuple(an_offer(str(7_000 + n)) for n in range(OFFERS) if str(7_000 + n) not in self._taken())

    async def offer(self, offer_id: str, disk_gb: int) -> Offer | None:
        del disk_gb
        return next((o for o in await self.offers() if o.offer_id == offer_id), None)

    async def launch(self, order: Order, may_begin: MayBegin = at_once) -> str:
        await may_begin()
        self.asked.append(order.label)
        provider_id = str(9_000 + len(self.asked))
        self.rented[provider_id] = as_rented(order, an_offer(order.offer_id), provider_id)
        return provider_id

    async def destroy(self, provider_id: str, may_begin: MayBegin = at_once) -> None:
        await may_begin()
        self.rented.pop(provider_id, None)

    def _taken(self) -> set[str]:
        return {machine.machine_id.removeprefix("m") for machine in self.rented.values()}


class Everything(Arguments):
    """An argument of each type that JSON knows."""

    count: int = Field(ge=-1_000, le=1_000_000)
    rate: float = 1.0
    on: bool = False
    tags: tuple[str, ...] = ()
    detail: dict[str, int] = Field(default={})
    note: str = ""


class Hurried(OpenAIModel):
    """Waits a moment where the resource says seconds: for servers that never answer."""

    longest = timedelta(seconds=0.1)

    async def reply(self, request: ModelRequest) -> Reply:
        return await super().reply(replace(request, timeout=self.longest))


@dataclass
class Patient(OnPostgres):
    """An agent whose every run wants one more machine, so that each has an effect unless the fault is in the way."""

    market: CountingMarket = field(default_factory=CountingMarket)
    clock: SkippedTime = field(default_factory=SkippedTime)
    gate: Gate = field(default_factory=Gate)
    worker_url: str | None = "https://fleetagent.test"
    hurried: bool = False
    says: str = ""
    written: list[Everything] = field(default_factory=list)
    """What the tool with an argument of each type was given, each time that it was executed."""

    def __post_init__(self) -> None:
        async def written(_: Desk, given: Everything, __: str) -> JsonObject:
            self.written.append(given)
            return {"ok": True, "times": len(self.written)}

        tool = Tool("write_down", "Writes down what it is given.", Everything, written)
        # Behind the first, since faults that need any call take the first tool that is offered.
        self.tools = (TOOLS[0], tool, *TOOLS[1:])
        self.spec = {**SPEC, **self.spec}

    def model(self) -> OpenAIModel:
        made = Hurried if self.hurried else OpenAIModel
        return made(
            base_url=self.server.url,
            api_key=KEY,
            name=self.agent.spec.model.name,
            http=self.http,
            habits=self.habits,
            gate=self.gate,
            patience=PATIENCE,
            timing=self.clock.timing(),
        )

    async def live_through(
        self, fault: str | None, *, times: int | None = None, after: int = 0, pause_seconds: float = 0.0
    ) -> "Lived":
        """One run with this fault; an interval after the last one, and a pause if the server asked for it."""
        self.clock.passed += INTERVAL_SECONDS + pause_seconds
        if self.says:
            await self.say(self.says)
        if fault is not None:
            self.server.put("faults", {"name": fault, "times": times, "after": after})
        before = self.server.get("state")["requests"], len(self.market.asked), len(self.written)
        try:
            ended = await self.run(Trigger.REQUEST)
        finally:
            self.server.delete("faults")
        row = await self.last()
        return Lived(
            ended=ended,
            row=row,
            actions=[a for a in await self.process.rows("SELECT * FROM actions") if a["run_id"] == row["run_id"]],
            requests=self.server.requests(after=before[0]),
            launched=self.market.asked[before[1] :],
            written=self.written[before[2] :],
        )

    async def everything_said(self) -> str:
        """All texts that this agent left in the database and in Events."""
        tables = ("runs", "messages", "actions", "instances", "compactions", "alerts", "sessions", "agents")
        rows = [await self.process.rows(f"SELECT * FROM {table}") for table in tables]  # noqa: S608  # our own names
        return json.dumps([rows, self.cluster.events], default=str, ensure_ascii=False)


@dataclass(frozen=True)
class Lived:
    """What one run left behind."""

    ended: Ended
    row: JsonObject
    actions: list[JsonObject]
    requests: list[JsonObject]
    launched: list[str]
    written: list[Everything]

    @property
    def told(self) -> str:
        """What an operator reads about it."""
        return f"{self.row['outcome']} {self.row['reason']}: {self.row['error'] or self.row['summary']}"

    def check(self, *, strict: bool = True) -> None:
        """What holds for every run, whatever the fault: requests valid, each effect once and written down.

        Not `strict` is for a server that wants what strict ones refuse.
        """
        for request in self.requests:
            assert not request["violations"], request["violations"]
            body = request["body"]
            assert isinstance(body, dict), "the body was no JSON"
            assert not strict or violations(body["messages"]) == []
        done = [a for a in self.actions if a["state"] == "done" and a["kind"] == "launch"]
        assert len(self.launched) == len(done) <= 1, (self.launched, self.actions)
        assert not [a for a in self.actions if a["state"] in {"intended", "unknown"}], self.actions
        keys = Counter(a["intent_key"] for a in self.actions)
        assert not keys or max(keys.values()) == 1, keys


def spelled(secret: str) -> tuple[str, ...]:
    """A secret as it may be written: as it is, in a URL, in JSON."""
    return secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1].replace("/", "\\/")


@asynccontextmanager
async def a_patient(database_url: str, server: Model) -> AsyncIterator[Patient]:
    """One who has not lived through anything yet."""
    async with a_process(database_url) as process, model_http_client() as http:
        yield Patient(process, server, http)
