"""Proofs per hour: expected, counted, projected."""

import math
from decimal import Decimal

import pytest

from fleetagent.domain.capacity import (
    Capacity,
    Target,
    capacity,
    capacity_of,
    effective_target,
    expected_rate,
    offer_rate,
    usd_per_proof,
)
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import MarketStatus, Phase
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


def test_a_machine_that_restarted_counts_by_what_it_made_before() -> None:
    assert capacity(an_instance("1", Phase.REGISTERED, measured_rate=60.0)) == pytest.approx(58.2)


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -5.0, 500.1, 1e9])
def test_a_rate_that_no_machine_makes_counts_as_what_was_expected_and_expected_nonsense_as_nothing(
    nonsense: float,
) -> None:
    assert capacity(an_instance("1", measured_rate=nonsense)) == 100.0
    assert capacity(an_instance("1", measured_rate=nonsense, expected_rate=nonsense)) == 0.0
    assert offer_rate(an_offer(measured_rate=nonsense)) == 120.0


@pytest.mark.parametrize("size", [math.nan, -1.0, 0.0])
def test_memory_that_is_no_size_makes_no_proofs(size: float) -> None:
    assert expected_rate("RTX 5090", 1, size, 64) == 0.0


@pytest.mark.parametrize("price", ["NaN", "sNaN", "Infinity"])
def test_proofs_at_a_price_that_is_none_cost_without_end(price: str) -> None:
    assert usd_per_proof(an_offer(usd_per_hour=price)) == Decimal("Infinity")
