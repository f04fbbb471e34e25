"""Two agents and a person on one account of a hostile market: real tools, rules, effects, lifecycle on any ledger."""

import json
import random
import re
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.agent.approvals import take_up
from fleetagent.agent.desk import Desk, Secret, Services
from fleetagent.agent.effects import Effects
from fleetagent.agent.lifecycle import CREDIT_LOW, FLEET_UNKNOWN, PRICE_RISE, Lifecycle
from fleetagent.agent.observe import OVER_BUDGET, Observe
from fleetagent.agent.subject import label_prefix
from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.tools import TOOLS
from fleetagent.domain.conversation.calls import normalise
from fleetagent.domain.model import RawCall, Reply, Usage
from fleetagent.domain.records import AgentKey, AgentRecord, Run, SessionRecord
from fleetagent.domain.resource import FleetAgent
from fleetagent.domain.settle import SettleLimits
from fleetagent.errors import LeaseLost
from support.hostile.actors import Actor, HostileWorlds, WatchedLedger
from support.hostile.auditor import DoorAuditor
from support.hostile.books import Books
from support.hostile.clients import Client
from support.hostile.crew import Crew
from support.hostile.market import HostileMarket
from support.hostile.stock import START, Clock, Machine
from support.manifests import a_fleet_agent, merged

NAMES = ("porep", "porep-2")
WHATEVER_STANDS = frozenset({FLEET_UNKNOWN, CREDIT_LOW, PRICE_RISE, OVER_BUDGET})
"""A process that has begun anew does not know better."""
LATEST_LOOKS, MOST_LOOKS = 12, 40
"""Two minutes apart: by then even a late machine has appeared, and by then all must be settled."""
TOOLBOX = Toolbox(TOOLS)
OFFER = re.compile(r'"offer_id":"(\d+)"[^{}]*?"usd_per_hour":"([\d.]+)"')
SECRET = "0123456789abcdef"  # makes workers' tokens long enough to be told from a URL


@dataclass
class World:
    """Everything of one seed. `books` may be the memory's or Postgres': whoever keeps the three ports."""

    seed: int
    books: Any = field(default_factory=Books)
    workers: Any = None
    """Where workers report; None: to the memory's books."""
    installation_stopped: bool = False
    calls: int = 0
    secrets: int = 0
    answers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.auditor = DoorAuditor(self.clock, lambda: self.market.faults)
        of_the_market = random.Random(self.seed + 1)  # noqa: S311  # to be repeated, not to be secret
        self.market = HostileMarket(self.clock, of_the_market, self.auditor)
        self.workers = self.workers or Crew(self.books)
        self.worlds: Any = HostileWorlds(self)
        self.ledger = WatchedLedger(self.books, self)
        self.actors: dict[str, Actor] = {}
        self.services = self._services()
        for number, name in enumerate(NAMES, 1):
            self._meet(name, number)
        self.foreign = [self.by_hand(label) for label in self.strange_labels()]

    def _meet(self, name: str, number: int) -> None:
        key = AgentKey("default", name)
        session = SessionRecord(1, 1, START, 0, None, 0, None, None, None, messages_in_prompt=0)
        rest: dict[str, Any] = {
            "handled": {},
            "spec_hash": None,
            "next_scheduled_at": None,
            "account_id": "7",
            "calibration": {},
        }
        more = rest | {"quiet": None, "model_failing_since": None, "session": session, "alerted": WHATEVER_STANDS}
        record = AgentRecord(id=number, key=key, uid=f"uid-{number}", last_run_id=0, **more)
        agent = a_fleet_agent(name=name)
        client = Client(name, label_prefix("test", key), agent.spec)
        self.auditor.clients[name] = client
        self.actors[name] = Actor(name, client, {}, agent, record)

    def actor_of(self, agent_id: int) -> Actor:
        return next(a for a in self.actors.values() if a.record.id == agent_id)

    def _services(self) -> Services:
        """The real parts on this world."""
        books, now = self.books, self.clock
        effects = Effects(books, self.ledger, now)
        limits = SettleLimits(settling=timedelta(minutes=5), confirm_gone=timedelta(minutes=1))
        lifecycle = Lifecycle(books, books, self.ledger, effects, self.worlds, now, limits)
        return Services(
            worlds=self.worlds,
            runs=books,
            ledger=self.ledger,
            cluster=self.worlds,
            effects=effects,
            observe=Observe(self.worlds, lifecycle, self.ledger, books, self.worlds, now),
            now=now,
            new_secret=self.new_secret,
            worker_url="http://workers.test",
            meter=self.worlds,
        )

    def new_secret(self) -> Secret:
        """Never the same, and no chance in it, so that two worlds of one seed are alike."""
        self.secrets += 1
        token = f"{self.secrets:012}{SECRET}"
        return Secret(token, token_hash(token))

    # --- what agents do ---

    async def look(self, actor: Actor) -> None:
        """A beat: nothing but the look at the fleet."""
        lease = await self.books.take_lease(actor.record.id)
        actor.client.owns = True
        await self.books.expire(lease, self.clock.now)
        await self.services.observe(actor.subject, lease)

    async def start_run(self, actor: Actor) -> None:
        """Claim, observe; the run is there for calls from now on."""
        actor.lease = lease = await self.books.take_lease(actor.record.id)
        run: Run = await self.books.claim(lease, self.clock.now)
        services = self.services
        actor.client.run_id, actor.client.owns = run.run_id, True
        actor.client.shown.clear()
        actor.round_no = 0
        seen, pulse = await services.observe(actor.subject, lease, run.run_id)
        market: Any = None if actor.no_key else self.market.seen_from(actor.name)
        actor.desk = Desk(actor.subject, run, services, seen, pulse, market, lambda _: actor.subject)
        actor.client.taking_up = True
        try:
            await take_up(actor.desk)
        except LeaseLost:
            actor.desk = None
        finally:
            actor.client.taking_up = False

    async def lose_the_lease(self, actor: Actor) -> None:
        """Another process takes over: whatever the run still tries must fail."""
        await self.books.take_lease(actor.record.id)
        actor.client.owns = False

    async def say(self, actor: Actor, *asked: tuple[str, str]) -> list[str]:
        """One reply of the model with these calls, name and argument text as it wrote them; the tools' answers."""
        if actor.desk is None:
            await self.start_run(actor)
        if actor.desk is None:
            return []
        actor.round_no += 1
        reply = Reply(
            "",
            tuple(RawCall(name, text) for name, text in asked),
            cut_off=False,
            usage=Usage(),
            finish_reason="tool_calls",
        )
        _, calls = normalise(reply, actor.desk.run.run_id, actor.round_no)
        said: list[str] = []
        for call in calls:
            self.calls += 1
            try:
                answer = await TOOLBOX.answer(actor.desk, call)
            except LeaseLost:
                actor.desk = None
                assert not actor.client.owns, "the lease was held"
                break
            said.append(answer)
            if call.name in {"get_offers", "plan_capacity"}:
                actor.client.see({offer_id: Decimal(usd) for offer_id, usd in OFFER.findall(answer)})
        return said

    def change_spec(self, actor: Actor, changes: dict[str, Any]) -> None:
        """Somebody applies another spec."""
        actor.changes = merged(actor.changes, changes)
        actor.agent = _agent(actor.name, json.dumps(actor.changes))
        actor.client.spec = actor.agent.spec

    # --- what the market and its people do ---

    def strange_labels(self) -> list[str | None]:
        """Labels that look like ours."""
        ours = self.actors[NAMES[0]].client.prefix
        return [
            None,
            "",
            ours[:-1],
            ours.upper() + "x",
            f" {ours}x",
            f"x{ours}",
            "fa/",
            "C.123",
            ours.replace("/", "_"),
        ]

    def by_hand(self, label: str | None) -> Machine:
        """A machine that a person made in the market's console."""
        return self.market.rent("hand", label, self.market.an_offer(), steps=3)

    async def settle_down(self) -> None:
        """All faults end; agents look until the account stands still."""
        self.market.faults = type(self.market.faults)()
        self.installation_stopped = False
        for actor in self.actors.values():
            actor.desk, actor.no_key, actor.client.demand = None, False, True
        for looks in range(MOST_LOOKS):
            self.clock.now += timedelta(minutes=2)
            for actor in self.actors.values():
                await self.look(actor)
            if looks > LATEST_LOOKS and not [a for a in self.actors.values() if await self.unsettled(a)]:
                return

    async def unsettled(self, actor: Actor) -> set[str | None]:
        """Machines that the ledger knows and the market does not have, or the other way round."""
        known = {i.provider_id for i in await self.books.instances(actor.record.id)}
        there = {
            m.provider_id
            for m in self.market.alive()
            if m.owner == actor.name or (m.label or "").startswith(actor.client.prefix)
        }
        return known ^ there

    async def check_books(self) -> None:
        """Ledger equals market, and what is nobody's business is untouched."""
        for actor in self.actors.values():
            apart = await self.unsettled(actor)
            assert not apart, f"seed {self.seed}: {actor.name}: in the ledger or on the market alone: {apart}"
        assert all(m.gone_at is None for m in self.foreign), "a machine that was made by hand is gone"
        assert not self.auditor.breaches, self.auditor.breaches[:5]


@lru_cache(maxsize=4096)
def _agent(name: str, changes: str) -> FleetAgent:
    """Parsing a resource takes longer than a run; the same few come again and again."""
    return a_fleet_agent(name=name, spec=json.loads(changes))
