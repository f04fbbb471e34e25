"""Runs whose model calls exactly what a test says, on an engine without a cluster; and what became of each call."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row

from support.asking import LOOK, Call, codes, launch, spoken
from support.border import Border
from support.engine import Engine, StoredCluster, a_body, an_engine, prefix_of
from support.manifests import Json, merged
from support.servers import Market, Model, a_market, a_model

ENDED = ("gone", "failed")
HOLDS: list[Json] = [{"reply": {"content": 'Hold.\n{"action": false, "state_changed": false}'}}] * 100
"""What the model says in runs that no test asked for, such as those that fleet events call for."""


@dataclass
class World:
    """One agent's engine, with the market, model server and database that it works on."""

    engine: Engine
    market: Market
    model: Model
    database_url: str
    asked: int = 0
    otherwise: list[Json] = field(default_factory=lambda: HOLDS)
    """Empty: the simulator's policy speaks in the runs that no test asked for."""
    shown: list[str] = field(default_factory=list)
    """The offers as a run was shown them, the cheapest proofs first."""

    async def ask(self, *rounds: list[Call], **later: float) -> list[str]:
        """A run that makes these calls; the state of each action, or the code of its refusal."""
        self.asked += 1
        before = max((run["run_id"] for run in self.own("runs", "run_id")), default=0)
        self.model.put("script", [*spoken(rounds), *self.otherwise])
        await self.engine.ask(f"request {self.asked}", **later)
        self.model.put("script", self.otherwise)
        return codes([action for action in self.own("actions") if action["run_id"] > before])

    async def look(self) -> list[str]:
        """The offers that a run is shown now."""
        await self.ask([LOOK])
        said = [
            m["content"]
            for m in self.own("messages", "session_id, seq")
            if m["role"] == "tool" and m["content"].startswith('{"shown"')
        ]
        shown = json.loads(said[-1])["offers"]
        self.shown = [offer.get("offer_id") or offer["id"] for offer in shown]
        return self.shown

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Read Postgres as an outside check would."""
        with psycopg.connect(self.database_url, row_factory=dict_row, autocommit=True) as connection:
            return list(connection.execute(query, values).fetchall())

    def own(self, table: str, order: str = "id") -> list[dict[str, Any]]:
        """This agent's rows, oldest first."""
        mine = "agent_id = (SELECT id FROM agents WHERE name = %s)"
        return self.rows(f"SELECT * FROM {table} WHERE {mine} ORDER BY {order}", self.engine.keeper.key.name)  # noqa: S608

    def live(self) -> list[Json]:
        """Our machines that exist on the market now, whatever its API shows."""
        prefix = prefix_of(self.engine.keeper.key.name)
        return [m for m in self.market.live() if (m["label"] or "").startswith(prefix)]

    def held(self) -> dict[str, str | None]:
        """Label and id of what the ledger holds for live."""
        return {row["label"]: row["provider_id"] for row in self.own("instances") if row["phase"] not in ENDED}

    def calls(self, *names: str) -> tuple[int, ...]:
        """How often the market heard these calls."""
        calls = self.market.get("state")["calls"]
        return tuple(calls[name] for name in names)

    def open_alerts(self) -> list[str]:
        """Codes of the alerts that stand."""
        return [row["code"] for row in self.rows("SELECT code FROM alerts WHERE state = 'open' ORDER BY id")]

    def check_books(self) -> None:
        """One machine for each intent at most, and the same machines in ledger and market."""
        state = self.market.get("state")
        intents = self.rows("SELECT label FROM actions WHERE kind = 'launch' AND state <> 'refused'")
        assert state["calls"]["create"] <= len(intents), "more creates than intents"
        labels = [m["label"] for m in self.live()]
        assert len(labels) == len(set(labels)), "two machines for one intent"
        assert {m["label"]: str(m["id"]) for m in self.live()} == self.held()
        assert self.model.get("state")["violations"] == 0
        assert not self.engine.complaints.said, self.engine.complaints.said


@asynccontextmanager
async def a_world(database_url: str, border: Border | None = None, spec: Json | None = None) -> AsyncIterator[World]:
    """An agent that wants far more than there is, on a market whose prices stand still; offers have been shown."""
    wanted = {"target": {"proofsPerHour": 5000}, "budget": {"fleetUsdPerHour": "100"}}
    with a_market() as market, a_model() as model:
        cluster = StoredCluster(a_body(market.base_url, model.url, spec=merged(wanted, spec or {})))
        async with an_engine(database_url, cluster, border=border) as engine:
            world = World(engine, market, model, database_url)
            await world.look()
            yield world


@asynccontextmanager
async def two_of_ours(database_url: str, border: Border | None = None) -> AsyncIterator[World]:
    """The same, with two machines that the list shows."""
    async with a_world(database_url, border) as world:
        assert await world.ask([LOOK], [launch(world.shown[0]), launch(world.shown[1])]) == ["done", "done"]
        await world.engine.beat(minutes=5)
        yield world


def ids(machines: Iterable[Json]) -> list[str]:
    """The market's ids of these machines."""
    return [str(machine["id"]) for machine in machines]
