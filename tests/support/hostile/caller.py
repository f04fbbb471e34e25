"""What a hostile model says and what happens around it, drawn by chance: the same seed, the same story."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from fleetagent.domain.fleet import MarketStatus
from support.hostile.actors import Actor
from support.hostile.speech import HOSTS_WORDS, Speech
from support.hostile.stock import CREATES, DESTROYS, LISTINGS, Machine
from support.hostile.world import NAMES, World

SPECS: tuple[dict[str, Any], ...] = (
    *({"mode": "Act", "pause": None},) * 8,
    *({"target": {"proofsPerHour": 2000}, "limits": {"maxInstances": 12, "launchesPerHour": 20}},) * 3,
    {"mode": "Act", "budget": {"fleetUsdPerHour": "9.00"}},
    {"mode": "DryRun"},
    {"mode": "Approve"},
    {"mode": "Approve", "approvalExpiry": "5m"},
    {"mode": "Suspended"},
    {"pause": {"until": "2026-11-30T03:00:00Z", "reason": HOSTS_WORDS[:12], "directions": ["Up"]}},
    {"pause": {"until": "2026-11-30T02:00:00Z", "directions": ["Down"]}},
    {"pause": {"until": "2026-11-30T02:00:00Z", "directions": ["Up", "Down"]}},
    {"target": {"proofsPerHour": 0}},
    *({"target": {"proofsPerHour": 0}, "limits": {"minInstances": 0, "minInstanceAge": "0s", "stopsPerRun": 1}},) * 2,
    {"target": {"proofsPerHour": 150}},
    {"target": {"proofsPerHour": 500}},
    {"target": {"proofsPerHour": 2000}, "budget": {"fleetUsdPerHour": "9.00"}},
    {"target": {"proofsPerHour": 2000}, "limits": {"launchesPerRun": 4, "launchesPerHour": 20}},
    {"budget": {"fleetUsdPerHour": "1.00"}},
    {"budget": {"fleetUsdPerHour": "4.00"}},
    {"budget": {"fleetUsdPerHour": "9.00"}},
    {"budget": {"fleetUsdPerDay": "12.00"}},
    {"budget": {"fleetUsdPerDay": "96.00"}},
    {"budget": {"usdPerProof": "0.004"}},
    {"budget": {"usdPerProof": "0.02"}},
    {"limits": {"maxInstances": 3}},
    {"limits": {"maxInstances": 12, "launchesPerRun": 4, "launchesPerHour": 20, "stopsPerRun": 4}},
    {"limits": {"launchesPerRun": 1, "launchesPerHour": 2, "stopsPerRun": 1}},
    {"limits": {"minInstances": 2, "minInstanceAge": "0s"}},
    {"limits": {"minInstances": 0, "minInstanceAge": "30m"}},
    {"fleet": {"vast": {"offers": {"gpuNames": ["RTX 5090", "RTX 4090"], "maxUsdPerHour": "0.60"}}}},
    {"fleet": {"vast": {"offers": {"gpuNames": [], "maxUsdPerHour": "2.00", "excludeMachines": [3, 5, 7]}}}},
    {"fleet": {"vast": {"offers": {"verified": False, "minReliability": 0.5, "minCpuRamGB": 60}}}},
)
SECONDS = (*(1, 5, 25, 65, 130, 310, 700) * 3, 1300, 2500, 3700, 4 * 3600)
LABELS = (None, "", "mine", HOSTS_WORDS)
MOST_CALLS_AT_ONCE = 16


@dataclass
class Caller:
    """Tells the story of one world. `pick` is its only source of chance."""

    world: World
    cancels: bool = True
    """Whether runs are cancelled in the midst of a call, as by a reset or a change of mode, and go on side by side.

    Without, a story depends on its seed alone, whatever keeps the books.
    """
    pick: random.Random = field(init=False)
    speech: Speech = field(init=False)

    def __post_init__(self) -> None:
        self.pick = random.Random(self.world.seed + 2)  # noqa: S311  # to be repeated, not to be secret
        self.speech = Speech(self.world, self.pick)
        for actor in self.world.actors.values():
            for _ in range(self.pick.randint(0, 8)):
                self.world.change_spec(actor, self.pick.choice(SPECS))

    async def step(self) -> None:
        """A reply of the model, or something that happens."""
        if self.pick.random() < 0.6:
            await self._replies()
            return
        events, weights = zip(*self._events().items(), strict=True)
        happened = self.pick.choices(events, weights)[0]()
        if asyncio.iscoroutine(happened):
            await happened

    async def _replies(self) -> None:
        """Of one agent, or of both at the same time."""
        actors = list(self.world.actors.values())
        actors = actors if self.pick.random() < 0.3 else [self.pick.choice(actors)]
        if self.cancels:
            answers = await asyncio.gather(*map(self._reply, actors))
        else:  # in turn: who comes first would be for the stores to say
            answers = [await self._reply(actor) for actor in actors]
        for actor, said in zip(actors, answers, strict=True):
            self.world.answers += said
            self.speech.hear(actor, said)

    async def _reply(self, actor: Actor) -> list[str]:
        many = MOST_CALLS_AT_ONCE if self.pick.random() < 0.03 else self.pick.choice((1, 1, 1, 2, 2, 3))
        asked = [self.speech.a_call(actor) for _ in range(many)]
        if self.pick.random() < 0.1:
            asked = [asked[0]] * many  # the same again and again
        ticks = self.pick.randint(1, 30) if self.cancels and self.pick.random() < 0.03 else None
        saying = self.world.say(actor, *asked)
        return await saying if ticks is None else await _cut_short(actor, saying, ticks)

    # --- what happens ---

    def _events(self) -> dict[Callable[[], Any], int]:
        return {
            self._time_passes: 24,
            self._a_look: 10,
            self._a_run_ends: 60,
            self._workers_go_on: 26,
            self._a_fault: 9,
            self._faults_end: 9,
            self._offers_move: 8,
            self._a_machine_changes: 8,
            self._a_spec_changes: 9,
            self._demand_changes: 4,
            self._the_installation: 3,
            self._a_key_is_missing: 1,
            self._the_lease_is_lost: 2,
            self._somebody_rents: 2,
            self._a_stray_appears: 3,
            self._a_person_decides: 5,
            self._credit_changes: 1,
        }

    def _an_actor(self) -> Actor:
        return self.world.actors[self.pick.choice(NAMES)]

    def _a_machine(self) -> Machine | None:
        there = [m for m in self.world.market.alive() if m.owner != "hand"]
        return self.pick.choice(there) if there else None

    def _time_passes(self) -> None:
        self.world.clock.now += timedelta(seconds=self.pick.choice(SECONDS))

    async def _a_look(self) -> None:
        actor = self._an_actor()
        actor.desk = None  # a keeper looks by itself only while no run goes on
        await self.world.look(actor)

    def _a_run_ends(self) -> None:
        self._an_actor().desk = None

    async def _workers_go_on(self) -> None:
        for machine in self.world.market.alive():
            if machine.worker_token and machine.visible_at <= self.world.clock.now and self.pick.random() < 0.8:
                await self._worker(machine)

    async def _worker(self, machine: Machine) -> None:
        workers, now = self.world.workers, self.world.clock.now
        token, machine.status = machine.worker_token or "", MarketStatus.RUNNING
        if machine.steps == 0 or self.pick.random() < 0.02:  # it restarts at times
            await workers.register(token, now)
            machine.steps, machine.rate = 1, None
        elif machine.steps == 1:
            await workers.params_done(token, now)
            machine.steps = 2
        elif machine.steps == 2:
            rate = self.pick.choice((0.0, 5.0, 40.0, 60.0, 90.0, 120.0))
            machine.rate = await workers.bench_done(token, rate, now)
            offer, client = machine.offer, self.world.actors[machine.owner].client
            key = offer.machine_id, offer.gpu_name, offer.num_gpus
            client.rates[key] = max(rate, client.rates.get(key, 0.0))
            machine.steps = 3

    def _a_fault(self) -> None:
        faults, kind = self.world.market.faults, self.pick.choice(("listing", "create", "create", "destroy", "search"))
        words = {"listing": LISTINGS, "create": CREATES, "destroy": DESTROYS, "search": ("fine", "fails")}[kind]
        setattr(faults, kind, self.pick.choice(words))
        machine = self._a_machine()
        faults.hidden = machine.provider_id if machine else None

    def _faults_end(self) -> None:
        self.world.market.faults = type(self.world.market.faults)()

    def _offers_move(self) -> None:
        market = self.world.market
        for offer in list(market.offers.values()):
            match self.pick.randint(0, 9):
                case 0:
                    market.offers.pop(offer.offer_id)
                case 1:
                    dearer = offer.usd_per_hour * self.pick.choice((1, 2, 3)) + Decimal("0.005")
                    market.offers[offer.offer_id] = replace(offer, usd_per_hour=dearer)
                case 2:
                    market.offers[offer.offer_id] = replace(offer, verified=False, gpu_name=HOSTS_WORDS)
        market.restock()

    def _a_machine_changes(self) -> None:
        machine = self._a_machine()
        if machine is None:
            return
        match self.pick.randint(0, 6):
            case 0:
                self.world.market.end(machine)  # lost
            case 1 if machine.seen:
                machine.label = self.pick.choice(LABELS)
            case 2:
                dearer = (machine.usd_per_hour or Decimal("0.1")) * Decimal("1.2")
                machine.usd_per_hour = self.pick.choice((dearer, dearer, None))
            case _:
                machine.status, machine.message = self.pick.choice(list(MarketStatus)), HOSTS_WORDS

    def _a_spec_changes(self) -> None:
        self.world.change_spec(self._an_actor(), self.pick.choice(SPECS))

    def _demand_changes(self) -> None:
        self._an_actor().client.demand = self.pick.choice((True, True, True, True, True, True, True, False, None))

    def _the_installation(self) -> None:
        self.world.installation_stopped = self.pick.random() < 0.1
        for actor in self.world.actors.values():
            actor.client.stopped = self.world.installation_stopped

    def _a_key_is_missing(self) -> None:
        self._an_actor().no_key = self.pick.random() < 0.3

    async def _the_lease_is_lost(self) -> None:
        await self.world.lose_the_lease(self._an_actor())

    def _somebody_rents(self) -> None:
        labels = self.world.strange_labels()
        self.world.foreign.append(self.world.by_hand(self.pick.choice(labels)))

    def _a_stray_appears(self) -> None:
        """Of a database that was lost, say."""
        actor, market = self._an_actor(), self.world.market
        label = f"{actor.client.prefix}stray{market.next_id}"
        market.rent(actor.name, label, market.an_offer(), status=self.pick.choice(list(MarketStatus)))

    async def _a_person_decides(self) -> None:
        """Of what waits, mostly; ids of nothing and of others' actions too."""
        actor, now = self._an_actor(), self.world.clock.now
        waiting = (await self.world.books.pulse(actor.record.id, 0, now)).waiting
        ids = [w.action_id for w in waiting if self.pick.random() < 0.7]
        ids.append(self.pick.randint(1, 60))
        if self.pick.random() < 0.75:
            answers, _ = await self.world.books.approve(actor.record.id, ids, str(now), now)
            actor.client.approvals += sum(a.is_new for a in answers)
        else:
            await self.world.books.reject(actor.record.id, ids, now)
        actor.desk = None

    def _credit_changes(self) -> None:
        self.world.market.credit_usd = self.pick.choice((None, Decimal(0), Decimal(3), Decimal(500)))


async def _cut_short(actor: Actor, saying: Coroutine[Any, Any, list[str]], ticks: int) -> list[str]:
    """Cancel the run after so many turns of the event loop; what has begun by then goes on to its end."""
    task = asyncio.ensure_future(saying)
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        actor.desk = None
        return []


async def a_story(seed: int, calls: int, *stores: Any, cancels: bool = True) -> World:
    """So many calls in one world; it is checked at each step, and settled at the end. `stores`: books and workers."""
    world = World(seed, *stores)
    caller = Caller(world, cancels)
    while world.calls < calls:
        await caller.step()
        assert not world.auditor.breaches, f"seed {seed}, call {world.calls}: {world.auditor.breaches}"
    await world.settle_down()
    await world.check_books()
    return world
