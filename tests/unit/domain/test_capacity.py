"""Proofs per hour: expected, counted, projected; and which offers close a shortfall."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.capacity import (
    CHANCE,
    Capacity,
    Target,
    capacity,
    capacity_of,
    choose,
    effective_target,
    expected_rate,
)
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import MarketStatus, Offer, Phase
from support.fleets import a_fleet, an_instance, an_offer


@pytest.mark.parametrize(
    ("gpu", "num_gpus", "ram_gb", "cores", "rate"),
    [
        ("RTX 5090", 1, 768, 64, 120.0),
        ("RTX 5090", 1, 1024, 128, 120.0),
        ("RTX 4090", 1, 768, 64, 95.0),
        ("RTX 5090", 1, 256, 64, 68.0),
        ("RTX 5090", 1, 320, 64, 76.5),
        ("RTX 5090", 1, 768, 32, 60.0),
        ("RTX 5090", 1, 768, 8, 48.0),
        ("RTX 5090", 1, 768, 0, 48.0),
        ("RTX 5090", 2, 768, 64, 192.0),
        ("RTX 5090", 0, 768, 64, 120.0),
        ("GTX 1", 1, 768, 64, 40.0),
        ("RTX 5090", 1, 0, 64, 0.0),
    ],
)
def test_a_machine_is_as_fast_as_the_weakest_of_gpu_memory_and_cores(
    gpu: str, num_gpus: int, ram_gb: float, cores: float, rate: float
) -> None:
    assert expected_rate(gpu, num_gpus, ram_gb, cores) == rate


@pytest.mark.parametrize(
    ("phase", "counts_for"),
    [
        (Phase.REQUESTED, 90.0),
        (Phase.LOADING, 93.0),
        (Phase.REGISTERED, 97.0),
        (Phase.BENCHMARKING, 98.0),
        (Phase.PROVING, 100.0),
        (Phase.STOPPING, 0.0),
        (Phase.GONE, 0.0),
        (Phase.FAILED, 0.0),
    ],
)
def test_a_machine_on_its_way_counts_by_the_chance_that_it_gets_there(phase: Phase, counts_for: float) -> None:
    assert capacity(an_instance("1", phase)) == pytest.approx(counts_for)


def test_what_was_measured_counts_and_not_what_was_expected() -> None:
    assert capacity(an_instance("1", measured_rate=42.0)) == 42.0
    assert capacity(an_instance("1", measured_rate=None)) == 100.0


@pytest.mark.parametrize("status", [MarketStatus.OFFLINE, MarketStatus.UNKNOWN, MarketStatus.STOPPED])
def test_a_machine_that_the_market_calls_dead_counts_for_nothing(status: MarketStatus) -> None:
    assert capacity(an_instance("1", market_status=status)) == 0.0


def test_each_machine_of_the_fleet_counts_once() -> None:
    fleet = a_fleet(an_instance("1"), an_instance("2", Phase.LOADING), an_instance("3", Phase.STOPPING))

    found = capacity_of(fleet)

    assert (found.proving, found.on_the_way, found.stopping, found.instances) == (1, 1, 1, 3)
    assert (found.proofs_per_hour, found.projected_proofs_per_hour) == (100.0, 193.0)


@pytest.mark.parametrize(
    ("demand", "target"),
    [
        (Demand(active=True), Target(500, Decimal(485), 2)),
        (Demand(active=False, queued=9), Target(0, Decimal(0), 2)),
        (DemandUnknown("no answer"), None),
    ],
    ids=["active", "inactive: only the floor", "unknown: no target at all"],
)
def test_the_effective_target_follows_demand(demand: Demand | DemandUnknown, target: Target | None) -> None:
    assert effective_target(500, 3, 2, demand) == target


@pytest.mark.parametrize(
    ("projected", "instances", "met"),
    [(485.0, 2, True), (484.9, 2, False), (900.0, 1, False), (500.0, 2, True)],
    ids=["on the border", "a tenth below", "below the floor of machines", "at the target"],
)
def test_the_target_is_met_from_its_tolerance_up(projected: float, instances: int, met: bool) -> None:  # noqa: FBT001
    fleet = Capacity(0, projected, proving=0, on_the_way=instances, stopping=9)

    assert Target(500, Decimal(485), 2).met_by(fleet) is met


def choice(offers: list[Offer], **changes: Any) -> list[str]:
    """Ids of the offers chosen."""
    usual = {"shortfall": 100.0, "at_least": 0, "at_most": 9, "usd_per_hour_left": Decimal(99)}
    return [s.offer.offer_id for s in choose(offers, **{**usual, **changes})]


def test_the_cheapest_proofs_go_first() -> None:
    offers = [an_offer("dear", usd_per_hour="0.60"), an_offer("cheap", usd_per_hour="0.40")]

    assert choice(offers, shortfall=200.0) == ["cheap", "dear"]


def test_the_last_machine_is_the_cheapest_that_suffices() -> None:
    big = an_offer("big", num_gpus=4, usd_per_hour="0.80")
    small = an_offer("small", usd_per_hour="0.45")

    assert choice([big, small], shortfall=100.0) == ["small"]


def test_what_is_covered_already_is_not_asked_for_again() -> None:
    small = an_offer("small", cpu_cores=32.0, usd_per_hour="0.25")  # 60 proofs/h
    offers = [an_offer("first", usd_per_hour="0.40"), an_offer("second", usd_per_hour="0.42"), small]

    assert choice(offers, shortfall=150.0) == ["first", "small"]


@pytest.mark.parametrize(
    ("shortfall", "ids"),
    [(54.0, ["small"]), (54.1, ["big"])],
    ids=["60 proofs/h with a chance of 0.9 are 54", "a little more is too much"],
)
def test_an_offer_counts_by_the_chance_that_it_arrives(shortfall: float, ids: list[str]) -> None:
    small = an_offer("small", cpu_cores=32.0, usd_per_hour="0.25")

    assert choice([small, an_offer("big", usd_per_hour="0.55")], shortfall=shortfall) == ids


@pytest.mark.parametrize(("usd_left", "count"), [("1.00", 2), ("0.99", 1), ("0.49", 0)])
def test_money_is_spent_to_its_last_cent_and_no_further(usd_left: str, count: int) -> None:
    offers = [an_offer("1"), an_offer("2"), an_offer("3")]

    assert len(choice(offers, shortfall=1000.0, usd_per_hour_left=Decimal(usd_left))) == count


def test_no_host_is_chosen_twice() -> None:
    offers = [an_offer("1", machine_id="same"), an_offer("2", machine_id="same"), an_offer("3")]

    assert choice(offers, shortfall=1000.0) == ["1", "3"]


def test_the_floor_of_machines_is_filled_although_nothing_is_short() -> None:
    assert len(choice([an_offer("1"), an_offer("2"), an_offer("3")], shortfall=0.0, at_least=2)) == 2


def test_nothing_is_chosen_when_nothing_is_short() -> None:
    assert choice([an_offer("1")], shortfall=0.0) == []


def test_what_makes_no_proofs_is_never_chosen() -> None:
    assert choice([an_offer("1", cpu_ram_gb=0.0)]) == []


OFFERS = st.lists(
    st.builds(
        an_offer,
        st.integers(1, 10**6).map(str),
        machine_id=st.integers(1, 12).map(str),
        num_gpus=st.integers(1, 8),
        cpu_ram_gb=st.floats(0, 1024),
        cpu_cores=st.floats(0, 128),
        usd_per_hour=st.decimals(Decimal("0.01"), Decimal("3.00"), places=2),
    ),
    max_size=12,
)
MONEY = st.decimals(Decimal("-1.00"), Decimal("8.00"), places=2)
SHORTFALL = st.floats(0, 2000)


@given(OFFERS, SHORTFALL, st.integers(0, 5), st.integers(0, 8), MONEY)
def test_the_choice_never_passes_money_or_number(
    offers: list[Offer], shortfall: float, at_least: int, at_most: int, usd_left: Decimal
) -> None:
    steps = choose(offers, shortfall=shortfall, at_least=at_least, at_most=at_most, usd_per_hour_left=usd_left)

    hosts = [s.offer.machine_id for s in steps]
    assert len(steps) <= at_most
    assert len(hosts) == len(set(hosts))
    assert sum((s.offer.usd_per_hour for s in steps), Decimal(0)) <= max(usd_left, Decimal(0))


@given(OFFERS, SHORTFALL)
def test_the_shortfall_is_covered_if_the_offers_can_and_no_machine_is_one_too_many(
    offers: list[Offer], shortfall: float
) -> None:
    steps = choose(offers, shortfall=shortfall, at_least=0, at_most=99, usd_per_hour_left=Decimal(999))

    arriving = [s.expected_rate * CHANCE[Phase.REQUESTED] for s in steps]
    if sum(arriving) < shortfall:  # only when there is nothing left to add
        usable = {o.machine_id for o in offers if expected_rate(o.gpu_name, o.num_gpus, o.cpu_ram_gb, o.cpu_cores) > 0}
        assert {s.offer.machine_id for s in steps} == usable
    else:
        assert sum(arriving[:-1]) < shortfall or not steps
