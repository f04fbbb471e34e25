"""The same world as a state machine, so that a failing story is told again in as few steps as can be."""

import asyncio
import json
import random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.hostile.caller import SPECS, Caller
from support.hostile.speech import INJECTED, TOOLS
from support.hostile.stock import CREATES, DESTROYS, LISTINGS
from support.hostile.world import NAMES, World

AGENTS = st.sampled_from(NAMES)
SPELLED = st.sampled_from((str, str.upper, lambda name: f" {name}\n"))
ODD = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=60), st.just(INJECTED))
ARGUMENTS = st.dictionaries(
    st.one_of(st.sampled_from(("offer_id", "instance_id", "reason", "minutes", "id", "count")), st.text(max_size=8)),
    st.one_of(ODD, st.lists(ODD, max_size=2), st.dictionaries(st.text(max_size=5), ODD, max_size=2)),
    max_size=4,
)
EVENTS = st.sampled_from(
    (
        "_a_look", "_a_run_ends", "_workers_go_on", "_faults_end", "_offers_move", "_a_machine_changes",
        "_demand_changes", "_the_installation", "_a_key_is_missing", "_the_lease_is_lost", "_somebody_rents",
        "_a_stray_appears", "_a_person_decides", "_credit_changes",
    )
)  # fmt: skip


class HostileModel(RuleBasedStateMachine):
    """What a model may say and what may happen, one rule each; the auditor is asked after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World(seed=0)
        self.caller = Caller(self.world)

    def _say(self, agent: str, *asked: tuple[str, str]) -> None:
        said = self.loop.run_until_complete(self.world.say(self.world.actors[agent], *asked))
        assert all(isinstance(json.loads(text), dict) for text in said)

    @rule(agent=AGENTS, tool=st.sampled_from(("plan_capacity", "get_offers", "get_fleet")))
    def looks(self, agent: str, tool: str) -> None:
        self._say(agent, (tool, "{}"))

    @rule(agent=AGENTS, which=st.integers(0, 14), by_alias=st.booleans(), spelled=SPELLED, times=st.integers(1, 5))
    def launches(self, agent: str, which: int, *, by_alias: bool, spelled: Any, times: int) -> None:
        actor = self.world.actors[agent]
        shown = sorted(actor.client.shown)
        if not shown or actor.desk is None:
            return
        offers = [shown[(which + n) % len(shown)] for n in range(times)]
        names = [actor.desk.offer_aliases.get(o, o) if by_alias else o for o in offers]
        self._say(agent, *(("launch_instance", json.dumps({"offer_id": spelled(name)})) for name in names))

    @rule(agent=AGENTS, which=st.integers(0, 40), by_alias=st.booleans(), spelled=SPELLED)
    def stops(self, agent: str, which: int, *, by_alias: bool, spelled: Any) -> None:
        machines = list(self.world.market.machines.values())
        name = f"m{which}" if by_alias else machines[which % len(machines)].provider_id
        self._say(agent, ("stop_instance", json.dumps({"instance_id": spelled(name)})))

    @rule(agent=AGENTS, tool=st.one_of(st.sampled_from(tuple(TOOLS)), st.text(max_size=20)), arguments=ARGUMENTS)
    def says_anything(self, agent: str, tool: str, arguments: dict[str, Any]) -> None:
        self._say(agent, (tool, json.dumps(arguments)))

    @rule(agent=AGENTS, tool=st.sampled_from(tuple(TOOLS)), text=st.text(max_size=80))
    def writes_no_json(self, agent: str, tool: str, text: str) -> None:
        self._say(agent, (tool, text))

    @rule(seconds=st.integers(1, 20_000))
    def time_passes(self, seconds: int) -> None:
        self.world.clock.now += self.world.clock.now.resolution * 1_000_000 * seconds

    @rule(agent=AGENTS, spec=st.sampled_from(SPECS))
    def a_spec_changes(self, agent: str, spec: dict[str, Any]) -> None:
        self.world.change_spec(self.world.actors[agent], spec)

    @rule(
        listing=st.sampled_from(LISTINGS),
        create=st.sampled_from(CREATES),
        destroy=st.sampled_from(DESTROYS),
        which=st.integers(0, 40),
    )
    def the_market_fails(self, listing: str, create: str, destroy: str, which: int) -> None:
        faults, machines = self.world.market.faults, self.world.market.alive()
        faults.listing, faults.create, faults.destroy = listing, create, destroy
        faults.hidden = machines[which % len(machines)].provider_id

    @rule(event=EVENTS, chance=st.randoms(use_true_random=False))
    def something_happens(self, event: str, chance: random.Random) -> None:
        self.caller.pick = self.caller.speech.pick = chance
        happened = getattr(self.caller, event)()
        if asyncio.iscoroutine(happened):
            self.loop.run_until_complete(happened)

    @invariant()
    def no_rule_is_broken(self) -> None:
        assert not self.world.auditor.breaches, self.world.auditor.breaches

    def teardown(self) -> None:
        try:
            self.loop.run_until_complete(self.world.settle_down())
            self.loop.run_until_complete(self.world.check_books())
        finally:
            self.loop.close()
