"""Whatever the facts, a guardrail answers; what it lets pass keeps the sums. The sums are done here by hand."""

import math
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetagent.domain.capacity import expected_rate
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.facts import Facts, Launch, Refusal, Stop
from fleetagent.domain.fleet import Fleet, Instance, MarketStatus, Offer, Phase, Waiting
from fleetagent.domain.guardrails import check
from support.fleets import NOW, a_fleet, ago, an_instance, an_offer, facts, unknown_fleet

LAUNCH, STOP = Launch("7001", "because"), Stop("1", "because")
NO_PRICES = ["NaN", "sNaN", "Infinity", "-Infinity", "-0.50", "0", "1000.01", "1E+40"]


def code(action: Launch | Stop, told: Facts) -> str | None:
    refusal = check(action, told)
    return refusal.code if refusal else None


def a_waiting(**changes: Any) -> Waiting:
    """A launch that waits for a person: 100 proofs/h for 0.50 USD/h."""
    usual = Waiting(
        action_id=7,
        kind="launch",
        run_id=1,
        by="model",
        intent_key="k",
        reason="",
        what="1x RTX 5090",
        usd_per_hour=Decimal("0.50"),
        proofs_per_hour=100.0,
        expires_at=NOW + timedelta(minutes=15),
        offer=an_offer("8001"),
    )
    return replace(usual, **changes)


def fleet_with(*waiting: Waiting, machines: tuple[Instance, ...] = ()) -> Fleet:
    return replace(a_fleet(*machines), waiting=waiting)


@pytest.mark.parametrize("price", NO_PRICES)
def test_a_price_that_is_none_never_passes_whether_it_was_shown_or_is_asked_now(price: str) -> None:
    odd = an_offer(usd_per_hour=price)
    no_cap = {"budget": {"fleetUsdPerHour": "999999999"}}

    assert code(LAUNCH, facts(offer_now=odd, spec=no_cap)) == "OfferImplausible"
    assert code(LAUNCH, facts(offers_shown={"7001": odd}, spec=no_cap)) == "OfferImplausible"


@pytest.mark.parametrize("price", NO_PRICES)
def test_nothing_is_added_to_a_bill_with_a_price_that_is_none(price: str) -> None:
    unpriced = an_instance("1", usd_per_hour=price)

    assert code(LAUNCH, facts(unpriced)) == "BillUnknown"
    assert code(LAUNCH, facts(fleet=fleet_with(a_waiting(usd_per_hour=Decimal(price))))) == "BillUnknown"
    assert code(STOP, facts(unpriced, demand=Demand(active=False))) is None


@pytest.mark.parametrize("spent", ["NaN", "sNaN", "Infinity"])
def test_nothing_is_added_when_what_was_spent_is_not_known(spent: str) -> None:
    told = facts(usd_spent_today=spent, spec={"budget": {"fleetUsdPerDay": "96"}})

    assert code(LAUNCH, told) == "BillUnknown"


def test_a_correction_below_nothing_gives_no_money_to_spend() -> None:
    spec = {"budget": {"fleetUsdPerDay": "5.99"}}  # twelve hours to go, at 0.50 USD/h

    assert code(LAUNCH, facts(usd_spent_today="-50.00", spec=spec)) == "OverDailyBudget"


@pytest.mark.parametrize("rate", [math.nan, math.inf, -1.0, 0.0, 1e9])
def test_a_rate_that_nobody_can_believe_does_not_make_an_offer_cheap(rate: float) -> None:
    """60 proofs/h by the table."""
    slow = an_offer(cpu_cores=32.0, measured_rate=rate, usd_per_hour="0.49")
    spec = {"budget": {"usdPerProof": "0.008"}}

    assert code(LAUNCH, facts(offers_shown={"7001": slow}, offer_now=slow, spec=spec)) == "TooDearPerProof"


@pytest.mark.parametrize("field", ["gpu_ram_gb", "cpu_ram_gb", "cpu_cores", "disk_gb", "download_mbps", "reliability"])
def test_a_size_that_is_no_number_is_outside_the_filter(field: str) -> None:
    unknown: dict[str, Any] = {field: math.nan}

    assert code(LAUNCH, facts(offer_now=an_offer(**unknown))) == "OfferOutsideFilter"


def test_an_offer_that_cannot_hold_the_disk_is_outside_the_filter() -> None:
    spec = {"fleet": {"vast": {"instance": {"diskGB": 901}}}}

    assert code(LAUNCH, facts(spec=spec)) == "OfferOutsideFilter"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(120, None), (121, "FleetStale"), (-120, None), (-121, "FleetStale")],
    ids=["two minutes ago", "a second more", "a clock that is a little off", "a time that has not come"],
)
def test_an_old_look_at_the_fleet_is_no_ground_to_act_on(seconds: int, expected: str | None) -> None:
    seen = ago(seconds=seconds)
    machines = tuple(an_instance(name) for name in "123456")

    assert code(LAUNCH, facts(fleet=Fleet((), seen))) == expected
    assert code(STOP, facts(fleet=Fleet(machines, seen))) == expected


@pytest.mark.parametrize(
    ("used", "by", "expected"),
    [(999, "model", None), (1000, "model", "ModelBudgetUsedUp"), (1000, "controller", None), (1000, "person", None)],
)
def test_a_model_whose_tokens_are_used_up_wishes_in_vain_and_nobody_else_does(
    used: int, by: str, expected: str | None
) -> None:
    spec = {"budget": {"modelTokensPerDay": 1000}}

    assert code(replace(LAUNCH, by=by), facts(model_tokens_today=used, spec=spec)) == expected


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (a_waiting(offer=an_offer("7001", machine_id="elsewhere")), "SameIntentInFlight"),
        (a_waiting(offer=an_offer("8001", machine_id="m7001")), "SameIntentInFlight"),
        (a_waiting(), None),
    ],
    ids=["the same offer", "another offer of the same host", "another host"],
)
def test_what_waits_for_a_person_already_is_not_ordered_beside_it(waiting: Waiting, expected: str | None) -> None:
    assert code(LAUNCH, facts(fleet=fleet_with(waiting))) == expected


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({"fleetUsdPerHour": "1.50"}, None),
        ({"fleetUsdPerHour": "1.49"}, "OverHourlyBudget"),
        ({"fleetUsdPerDay": "18.00"}, None),
        ({"fleetUsdPerDay": "17.99"}, "OverDailyBudget"),
    ],
    ids=["hourly, to the cent", "a cent less", "daily, twelve hours to go", "a cent less"],
)
def test_what_waits_for_a_person_is_in_the_bill_beside_what_is_there(budget: dict[str, str], expected: str) -> None:
    spec = {"budget": {"fleetUsdPerHour": "9", **budget}}

    assert code(LAUNCH, facts(fleet=fleet_with(a_waiting(), machines=(an_instance("1"),)), spec=spec)) == expected


# --- whatever the facts ---

FLOATS = st.floats() | st.floats(0, 1000) | st.sampled_from([0.0, 60.0, 100.0, 120.0])
DECIMALS = (
    st.sampled_from([Decimal(text) for text in [*NO_PRICES, "0.01", "0.50", "0.5000000001"]])
    | st.decimals(Decimal("0.05"), Decimal("2.00"), places=2)
    | st.decimals()
)
TIMES = st.integers(-500, 500).map(lambda minutes: NOW + timedelta(minutes=minutes))
WORDS = st.sampled_from(["1", "2", "7001", "m7001", "", "fa/x"]) | st.text(max_size=6)
OFFER = st.builds(
    Offer,
    offer_id=WORDS,
    machine_id=WORDS,
    gpu_name=st.sampled_from(["RTX 5090", "RTX 4090", "?"]),
    num_gpus=st.integers(-2, 12) | st.integers(),
    gpu_ram_gb=FLOATS,
    cpu_ram_gb=FLOATS | st.floats(256, 1024),
    cpu_cores=FLOATS | st.floats(32, 128),
    disk_gb=FLOATS | st.floats(300, 900),
    download_mbps=FLOATS | st.just(800.0),
    cuda_version=st.sampled_from(["13.0", "", "x"]),
    reliability=FLOATS | st.just(0.99),
    usd_per_hour=DECIMALS,
    verified=st.booleans(),
    country=st.just("DE"),
    measured_rate=st.none() | FLOATS,
) | st.builds(an_offer, st.just("7001"), usd_per_hour=DECIMALS, measured_rate=st.none() | FLOATS)
INSTANCE = st.builds(
    Instance,
    label=WORDS,
    provider_id=st.none() | WORDS,
    phase=st.sampled_from(Phase),
    phase_since=TIMES,
    requested_at=TIMES,
    machine_id=WORDS,
    gpu_name=st.just("RTX 5090"),
    num_gpus=st.integers(-1, 9),
    cpu_ram_gb=FLOATS,
    cpu_cores=FLOATS,
    usd_per_hour=DECIMALS,
    expected_rate=FLOATS,
    measured_rate=st.none() | FLOATS,
    market_status=st.none() | st.sampled_from(MarketStatus),
    failure=st.none() | st.just("x"),
) | st.builds(an_instance, WORDS, st.sampled_from(Phase))
WAITING = st.builds(
    a_waiting,
    kind=st.sampled_from(["launch", "stop"]),
    usd_per_hour=DECIMALS,
    proofs_per_hour=FLOATS,
    offer=st.none() | OFFER,
    label=st.none() | WORDS,
)


@st.composite
def any_facts(draw: st.DrawFn) -> Facts:
    """Facts with one or the other thing in them that makes no sense; without any, an action may well pass."""

    def mostly(usual: Any, odd: st.SearchStrategy[Any]) -> Any:
        return draw(odd) if draw(st.integers(0, 11)) == 7 else usual

    money = st.decimals(Decimal(0), Decimal(9), places=2).map(str)
    budget: dict[str, Any] = {"fleetUsdPerHour": draw(money)}
    budget |= {"fleetUsdPerDay": str(draw(st.integers(0, 60)))} if draw(st.booleans()) else {}
    budget |= {"usdPerProof": "0.008"} if draw(st.booleans()) else {}
    spec = {
        "mode": mostly("Act", st.sampled_from(["DryRun", "Approve", "Suspended"])),
        "budget": budget,
        "limits": {"maxInstances": draw(st.integers(0, 6)), "minInstances": 0, "minInstanceAge": "0s"},
        "target": {"proofsPerHour": draw(st.integers(0, 900))},
    }
    usual = draw(st.lists(st.sampled_from([an_instance(n, p) for n in "123" for p in Phase]), max_size=4))
    machines = mostly(usual, st.lists(INSTANCE, max_size=4))
    waiting = mostly(draw(st.lists(st.just(a_waiting()), max_size=1)), st.lists(WAITING, max_size=2))
    fleet = Fleet(tuple(machines), mostly(NOW, TIMES), tuple(waiting))
    offer = mostly(an_offer(usd_per_hour=draw(st.sampled_from(["0.20", "0.50", "0.97"]))), st.none() | OFFER)
    shown = {"7001": offer} if offer is not None else {}
    return facts(
        spec=spec,
        fleet=mostly(fleet, st.just(unknown_fleet())),
        demand=mostly(Demand(active=True), st.sampled_from([Demand(active=False), DemandUnknown("?")])),
        offers_shown=mostly(shown, st.dictionaries(WORDS, OFFER, max_size=2)),
        offer_now=offer,
        hosts_excluded=mostly({}, st.dictionaries(WORDS, TIMES, max_size=2)),
        launches_this_run=mostly(0, st.integers(-1, 5)),
        launches_last_hour=mostly(0, st.integers(-1, 9)),
        stops_this_run=mostly(0, st.integers(-1, 5)),
        usd_spent_today=mostly(draw(st.decimals(Decimal(0), Decimal(50), places=2)), DECIMALS),
        installation_stop=mostly(None, st.just("x")),
        workers_can_report=mostly(True, st.just(False)),
    )


@settings(max_examples=400)
@given(any_facts())
def test_a_launch_that_passes_keeps_every_sum_and_nonsense_is_refused_and_never_an_error(told: Facts) -> None:
    refusal = check(LAUNCH, told)
    if refusal is not None:
        assert isinstance(refusal, Refusal)
        assert refusal.sentence
        return
    spec, offer, fleet = told.spec, told.offer_now, told.fleet
    assert isinstance(fleet, Fleet)
    assert offer is not None
    assert told.target is not None
    coming = [w for w in fleet.waiting if w.kind == "launch"]
    prices = [offer.usd_per_hour, *(i.usd_per_hour for i in fleet.instances), *(w.usd_per_hour for w in coming)]
    assert all(price.is_finite() and 0 < price <= 1000 for price in prices)
    assert sum(prices) <= spec.budget.fleet_usd_per_hour
    if spec.budget.fleet_usd_per_day is not None:
        assert told.usd_spent_today + sum(prices) * 12 <= spec.budget.fleet_usd_per_day  # it is noon
    assert len([i for i in fleet.instances if i.phase not in {Phase.GONE, Phase.FAILED}]) + len(coming) < (
        spec.limits.max_instances
    )
    assert told.launches_this_run < 2
    assert told.launches_last_hour < 6
    assert offer.usd_per_hour <= told.offers_shown["7001"].usd_per_hour + Decimal("0.01")
    assert told.hosts_excluded.get(offer.machine_id, NOW) <= NOW
    assert (spec.mode, told.installation_stop, told.workers_can_report) == ("Act", None, True)
    assert abs(fleet.observed_at - NOW) <= timedelta(minutes=2)
    if spec.budget.usd_per_proof is not None:
        rate = expected_rate(offer.gpu_name, offer.num_gpus, offer.cpu_ram_gb, offer.cpu_cores)
        if offer.measured_rate is not None and 0 < offer.measured_rate <= 500 * max(1, offer.num_gpus):
            rate = round(offer.measured_rate, 1)
        assert offer.usd_per_hour <= spec.budget.usd_per_proof * Decimal(str(rate))


@settings(max_examples=400)
@given(any_facts(), WORDS)
def test_a_stop_that_passes_hits_a_machine_of_ours_that_is_not_needed_and_is_never_an_error(
    told: Facts, name: str
) -> None:
    refusal = check(Stop(name, ""), told)
    if refusal is not None:
        assert refusal.sentence
        return
    assert isinstance(told.fleet, Fleet)
    assert told.target is not None
    machine = told.fleet.named(name)
    assert machine is not None
    assert machine.provider_id is not None
    assert machine.phase is not Phase.STOPPING
    assert told.stops_this_run < 2
    assert told.spec.mode == "Act"
