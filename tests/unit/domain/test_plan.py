"""Plans: for the least money, within every limit, and passing the guardrails as they stand."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.capacity import CHANCE, capacity, capacity_of, offer_rate
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.facts import Facts, Launch, Stop
from fleetagent.domain.fleet import Fleet, Instance, MarketStatus, Offer, Phase, Waiting
from fleetagent.domain.guardrails import check_as_in_act
from fleetagent.domain.money import hours_to_midnight
from fleetagent.domain.plan import Plan, plan_of
from support.fleets import NOW, a_fleet, ago, an_instance, an_offer, facts, unknown_fleet

ROOMY: dict[str, Any] = {"limits": {"launchesPerRun": 9, "launchesPerHour": 99}, "budget": {"fleetUsdPerHour": "99.00"}}
SMALL: dict[str, Any] = {"cpu_cores": 32.0, "usd_per_hour": "0.25"}
"""60 proofs/h for 0.25 USD."""


def wanting(proofs_per_hour: int, *instances: Instance, **spec: Any) -> Facts:
    """Facts of an agent that wants so many proofs per hour, exactly, and may order what it likes."""
    target = {"target": {"proofsPerHour": proofs_per_hour, "tolerancePercent": 0}}
    return facts(*instances, spec={**ROOMY, **target, **spec})


def launched(plan: Plan) -> list[str]:
    return [step.offer.offer_id for step in plan.launches]


def stopped(plan: Plan) -> list[str]:
    return [instance.instance_id for instance in plan.stops]


def test_the_cheapest_proofs_go_first() -> None:
    offers = [an_offer("dear", usd_per_hour="0.60"), an_offer("cheap", usd_per_hour="0.40")]

    assert launched(plan_of(wanting(200), offers)) == ["cheap", "dear"]


def test_the_last_machine_is_the_cheapest_that_suffices() -> None:
    big = an_offer("big", num_gpus=4, usd_per_hour="0.80")

    assert launched(plan_of(wanting(100), [big, an_offer("small", usd_per_hour="0.45")])) == ["small"]


def test_what_is_covered_already_is_not_asked_for_again() -> None:
    offers = [an_offer("first", usd_per_hour="0.40"), an_offer("second", usd_per_hour="0.42"), an_offer("s", **SMALL)]

    assert launched(plan_of(wanting(150), offers)) == ["first", "s"]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [(54, ["small"]), (55, ["big"])],
    ids=["60 proofs/h with a chance of 0.9 are 54", "a little more is too much"],
)
def test_an_offer_counts_by_the_chance_that_it_arrives(wanted: int, ids: list[str]) -> None:
    offers = [an_offer("small", **SMALL), an_offer("big", usd_per_hour="0.55")]

    assert launched(plan_of(wanting(wanted), offers)) == ids


@pytest.mark.parametrize(("usd", "count"), [("1.00", 2), ("0.99", 1), ("0.49", 0)])
def test_money_is_spent_to_its_last_cent_and_no_further(usd: str, count: int) -> None:
    offers = [an_offer("1"), an_offer("2"), an_offer("3")]

    plan = plan_of(wanting(1000, budget={"fleetUsdPerHour": usd}), offers)

    assert len(plan.launches) == count
    assert plan.bound is not None
    assert plan.bound.code == "NoOffer"


def test_no_host_is_chosen_twice() -> None:
    offers = [an_offer("1", machine_id="same"), an_offer("2", machine_id="same"), an_offer("3")]

    assert launched(plan_of(wanting(1000), offers)) == ["1", "3"]


def test_the_floor_of_machines_is_filled_although_nothing_is_short() -> None:
    told = facts(demand=Demand(active=False), spec={"limits": {"minInstances": 2}})

    assert launched(plan_of(told, [an_offer("1"), an_offer("2", usd_per_hour="0.30"), an_offer("3")])) == ["2", "1"]


def test_what_makes_no_proofs_is_never_chosen() -> None:
    no_filter = {"fleet": {"vast": {"offers": {"minCpuRamGB": 0}}}}

    assert launched(plan_of(wanting(100, **no_filter), [an_offer("1", cpu_ram_gb=0.0)])) == []


def test_what_would_fail_its_benchmark_is_never_chosen() -> None:
    least = {"fleet": {"vast": {"instance": {"minProofsPerHour": 61}}}}

    assert launched(plan_of(wanting(100, **least), [an_offer("s", **SMALL), an_offer("b")])) == ["b"]


def test_where_few_places_are_left_small_machines_do_not_take_them() -> None:
    cheap = {**SMALL, "usd_per_hour": "0.15"}
    offers = [an_offer("s1", **cheap), an_offer("s2", **cheap), an_offer("b1"), an_offer("b2")]
    limits = {**ROOMY["limits"], "maxInstances": 2}

    assert launched(plan_of(wanting(200, limits=limits), offers)) == ["b1", "b2"]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"launchesPerRun": 1, "launchesPerHour": 9}, "LaunchesPerRun"),
        ({"launchesPerRun": 9, "launchesPerHour": 1}, "LaunchesPerHour"),
        ({"launchesPerRun": 9, "launchesPerHour": 9, "maxInstances": 1}, "TooManyInstances"),
    ],
)
def test_a_plan_says_which_limit_keeps_it_from_the_target(limits: dict[str, int], code: str) -> None:
    plan = plan_of(wanting(1000, limits=limits), [an_offer("1"), an_offer("2")])

    assert len(plan.launches) == 1
    assert plan.bound is not None
    assert plan.bound.code == code


@pytest.mark.parametrize(
    "told",
    [facts(fleet=unknown_fleet()), facts(demand=DemandUnknown("no answer")), facts(fleet=Fleet((), ago(minutes=3)))],
    ids=["fleet unknown", "demand unknown", "fleet looked at long ago"],
)
def test_nothing_is_planned_while_it_is_not_known_what_there_is(told: Facts) -> None:
    plan = plan_of(told, [an_offer("1")])

    assert (plan.launches, plan.stops) == ((), ())


def test_idle_machines_go_first_then_the_dearest_proofs_and_the_whole_target_stays() -> None:
    machines = [
        an_instance("cheap", usd_per_hour="0.20"),
        an_instance("dear", usd_per_hour="0.90"),
        an_instance("usual"),
        an_instance("idle", Phase.LOADING),
    ]

    assert stopped(plan_of(wanting(200, *machines), [])) == ["idle", "dear"]
    assert stopped(plan_of(wanting(300, *machines), [])) == ["idle"]
    assert stopped(plan_of(wanting(301, *machines), [])) == []


def test_a_stop_is_planned_only_if_the_whole_target_stays_and_not_just_its_tolerance() -> None:
    machines = [an_instance(name) for name in "123"]

    assert stopped(plan_of(facts(*machines, spec={"target": {"proofsPerHour": 201, "tolerancePercent": 10}}), [])) == []
    assert stopped(plan_of(facts(*machines, spec={"target": {"proofsPerHour": 200, "tolerancePercent": 10}}), [])) == [
        "1"
    ]


def test_at_most_so_many_are_stopped_as_one_run_may() -> None:
    machines = [an_instance(name) for name in "12345"]

    plan = plan_of(facts(*machines, demand=Demand(active=False), stops_this_run=1), [])

    assert len(plan.stops) == 1
    assert plan.bound is not None
    assert plan.bound.code == "StopsPerRun"


# --- whatever the facts ---

NAMES = st.integers(1, 30).map(str)
MACHINES = st.lists(
    st.builds(
        an_instance,
        NAMES | st.none(),
        st.sampled_from([Phase.REQUESTED, Phase.LOADING, Phase.BENCHMARKING, Phase.PROVING, Phase.STOPPING]),
        requested_at=st.integers(0, 120).map(lambda minutes: ago(minutes=minutes)),
        usd_per_hour=st.decimals(Decimal("0.10"), Decimal("2.00"), places=3),
        expected_rate=st.floats(0, 300),
        measured_rate=st.none() | st.floats(0, 300),
        market_status=st.sampled_from(MarketStatus),
    ),
    max_size=12,
    unique_by=lambda i: i.label,
)
OFFERS = st.lists(
    st.builds(
        an_offer,
        st.integers(1, 10**6).map(str),
        machine_id=st.integers(1, 20).map(lambda n: f"m{n}"),
        num_gpus=st.integers(1, 8),
        cpu_ram_gb=st.floats(0, 1024),
        cpu_cores=st.floats(0, 128),
        usd_per_hour=st.decimals(Decimal("0.05"), Decimal("3.00"), places=3),
        measured_rate=st.none() | st.floats(0, 900),
    ),
    max_size=12,
    unique_by=lambda o: o.offer_id,
)


WAITING = st.lists(
    st.builds(
        Waiting,
        action_id=st.integers(1, 99),
        kind=st.sampled_from(["launch", "stop"]),
        run_id=st.just(1),
        by=st.just("model"),
        intent_key=st.just("k"),
        reason=st.just(""),
        what=st.just("1x RTX 5090"),
        usd_per_hour=st.decimals(Decimal("0.10"), Decimal("2.00"), places=3),
        proofs_per_hour=st.floats(0, 300),
        expires_at=st.just(NOW + timedelta(minutes=15)),
        offer=st.integers(1, 20).map(lambda n: an_offer(f"waiting {n}", machine_id=f"m{n}")),
        label=NAMES.map(lambda name: an_instance(name).label),
    ),
    max_size=3,
)
"""What waits for a person: some of it on hosts that are on offer, some of it against machines that are there."""


@st.composite
def situations(draw: st.DrawFn) -> Facts:
    """Any fleet, target, budget and limits within reason."""
    dollars = st.decimals(Decimal("0.00"), Decimal("8.00"), places=2).map(str)
    budget = {"fleetUsdPerHour": draw(dollars)}
    if draw(st.booleans()):
        budget["fleetUsdPerDay"] = draw(st.integers(0, 150).map(str))
    if draw(st.booleans()):
        budget["usdPerProof"] = draw(st.sampled_from(["0.002", "0.004", "0.008", "0.02"]))
    limits = {
        "launchesPerRun": draw(st.integers(0, 6)),
        "launchesPerHour": draw(st.integers(0, 8)),
        "stopsPerRun": draw(st.integers(0, 6)),
        "minInstances": (floor := draw(st.integers(0, 4))),
        "maxInstances": draw(st.integers(floor, 14)),
    }
    target = {"proofsPerHour": draw(st.integers(0, 1200)), "tolerancePercent": draw(st.integers(0, 20))}
    return facts(
        fleet=Fleet(tuple(draw(MACHINES)), NOW, tuple(draw(WAITING))),
        spec={"budget": budget, "limits": limits, "target": target},
        demand=draw(st.sampled_from([Demand(active=True), Demand(active=False), DemandUnknown("no answer")])),
        launches_this_run=draw(st.integers(0, 2)),
        launches_last_hour=draw(st.integers(0, 3)),
        stops_this_run=draw(st.integers(0, 2)),
        usd_spent_today=draw(st.decimals(Decimal(-1), Decimal(90), places=2)),
        hosts_excluded={f"m{n}": NOW + timedelta(hours=1) for n in draw(st.sets(st.integers(1, 20), max_size=3))},
        now=NOW + timedelta(minutes=draw(st.integers(0, 1))),
    )


@given(situations(), OFFERS)
def test_every_step_of_any_plan_passes_the_guardrails_when_it_is_carried_out_in_order(
    told: Facts, offers: list[Offer]
) -> None:
    plan = plan_of(told, offers)

    assert not (plan.launches and plan.stops)
    for number, step in enumerate(plan.launches):
        shown = {s.offer.offer_id: s.offer for s in plan.launches}
        assert (
            check_as_in_act(Launch(step.offer.offer_id, ""), replace(told, offers_shown=shown, offer_now=step.offer))
            is None
        ), step
        told = with_new(told, an_ordered(step.offer, number, told.now))
    for instance in plan.stops:
        assert check_as_in_act(Stop(instance.instance_id, ""), told) is None, instance
        told = with_stopped(told, instance)
    assert plan.then.capacity == told.capacity


@given(situations(), OFFERS)
def test_after_any_plan_money_and_numbers_hold_and_no_machine_is_one_too_many(told: Facts, offers: list[Offer]) -> None:
    plan = plan_of(told, offers)
    if not plan.launches or not isinstance(told.fleet, Fleet) or told.target is None or told.capacity is None:
        return
    budget, limits = told.spec.budget, told.spec.limits
    waiting = [w for w in told.fleet.waiting if w.kind == "launch"]
    usd = sum((i.usd_per_hour for i in told.fleet.instances), Decimal(0))
    usd += sum((w.usd_per_hour for w in waiting), Decimal(0))
    usd += sum((s.offer.usd_per_hour for s in plan.launches), Decimal(0))
    assert usd <= budget.fleet_usd_per_hour
    if budget.fleet_usd_per_day is not None:
        assert max(Decimal(0), told.usd_spent_today) + usd * hours_to_midnight(told.now) <= budget.fleet_usd_per_day
    assert len(told.fleet.instances) + len(waiting) + len(plan.launches) <= limits.max_instances
    assert told.launches_this_run + len(plan.launches) <= limits.launches_per_run
    assert told.launches_last_hour + len(plan.launches) <= limits.launches_per_hour
    hosts = [s.offer.machine_id for s in plan.launches]
    assert len(hosts) == len(set(hosts))
    assert told.hosts_excluded.keys().isdisjoint(hosts)
    arriving = [offer_rate(s.offer) * CHANCE[Phase.REQUESTED] for s in plan.launches]
    before_last = told.capacity.projected_proofs_per_hour + sum(arriving[:-1])
    lasting_before_last = told.capacity.lasting + len(plan.launches) - 1
    short = Decimal(str(round(before_last, 1))) < told.target.hold_from
    assert short or lasting_before_last < limits.min_instances, "the last one was not needed"


@given(st.integers(50, 900), st.lists(st.sampled_from([40.0, 60.0, 95.0, 120.0]), min_size=20, max_size=20))
def test_with_loading_times_of_25_minutes_and_a_plan_every_5_no_more_is_ordered_than_needed(
    wanted: int, rates: list[float]
) -> None:
    told, ordered = wanting(wanted, limits={"launchesPerRun": 2, "launchesPerHour": 6}), 0.0
    stock = [an_offer(str(n), measured_rate=rate) for n, rate in enumerate(rates)]
    largest = max(rates)
    for beat in range(36):
        now = NOW + timedelta(minutes=5 * beat)
        told = at(told, now)
        plan = plan_of(replace(told, launches_last_hour=recent(told, now)), stock)
        assert plan.stops == ()
        for step in plan.launches:
            told = with_new(told, an_ordered(step.offer, len(stock), now))
            stock.remove(step.offer)
            ordered += step.expected_rate
        told = replace(told, launches_this_run=0)
    assert ordered * CHANCE[Phase.REQUESTED] < wanted + largest
    assert isinstance(told.fleet, Fleet)
    assert capacity_of(told.fleet).proofs_per_hour <= ordered


def an_ordered(offer: Offer, number: int, now: datetime) -> Instance:
    """As the ledger writes it down."""
    return an_instance(
        None,
        Phase.REQUESTED,
        label=f"ordered {number} {offer.offer_id}",
        machine_id=offer.machine_id,
        usd_per_hour=offer.usd_per_hour,
        expected_rate=offer_rate(offer),
        num_gpus=offer.num_gpus,
        requested_at=now,
        phase_since=now,
    )


def with_new(told: Facts, machine: Instance) -> Facts:
    assert isinstance(told.fleet, Fleet)
    return replace(
        told,
        fleet=replace(told.fleet, instances=(*told.fleet.instances, machine)),
        launches_this_run=told.launches_this_run + 1,
        launches_last_hour=told.launches_last_hour + 1,
    )


def with_stopped(told: Facts, machine: Instance) -> Facts:
    assert isinstance(told.fleet, Fleet)
    there = tuple(replace(i, phase=Phase.STOPPING) if i.label == machine.label else i for i in told.fleet.instances)
    return replace(told, fleet=replace(told.fleet, instances=there), stops_this_run=told.stops_this_run + 1)


def at(told: Facts, now: datetime) -> Facts:
    """The same fleet later: what was ordered 25 minutes ago proves."""
    assert isinstance(told.fleet, Fleet)
    ready = timedelta(minutes=25)
    there = [
        replace(i, phase=Phase.PROVING, measured_rate=i.expected_rate) if now - i.requested_at >= ready else i
        for i in told.fleet.instances
    ]
    return replace(told, now=now, fleet=replace(a_fleet(*there), observed_at=now))


def recent(told: Facts, now: datetime) -> int:
    assert isinstance(told.fleet, Fleet)
    return sum(now - i.requested_at < timedelta(hours=1) for i in told.fleet.instances)


def test_a_machine_counts_for_its_expected_rate_until_it_is_measured_and_never_for_both() -> None:
    before, after = an_instance("1", Phase.BENCHMARKING, expected_rate=100.0), an_instance("1", measured_rate=90.0)

    assert (capacity(before), capacity(after)) == (98.0, 90.0)
