"""What measured machines tell of those to come, and what they cannot spoil."""

import math
from typing import Any

import pytest

from fleetagent.domain.capacity import offer_rate
from fleetagent.domain.rates import believable, ram_class, rate_of_host, rates_of_kinds, with_history
from support.fleets import an_offer

HOST = ("m7001", "RTX 5090", 1)
KIND = ("RTX 5090", 1, 768)


@pytest.mark.parametrize(
    ("hosts", "kinds", "rate"),
    [
        ({HOST: 70.0}, {KIND: 90.0}, 70.0),
        ({}, {KIND: 90.0}, 90.0),
        ({("m7001", "RTX 5090", 2): 70.0, ("m1", "RTX 5090", 1): 70.0}, {("RTX 5090", 1, 512): 90.0}, 120.0),
    ],
    ids=[
        "this host with these GPUs",
        "else machines alike",
        "else the table: another host, count or class says nothing",
    ],
)
def test_the_best_source_of_a_rate_comes_first(hosts: Any, kinds: Any, rate: float) -> None:
    assert offer_rate(with_history(an_offer(), hosts, kinds)) == rate


def test_what_an_offer_claims_of_itself_is_not_believed() -> None:
    assert with_history(an_offer(measured_rate=400.0), {}, {}).measured_rate is None


@pytest.mark.parametrize(
    ("rate", "num_gpus", "is_believable"),
    [
        (0.1, 1, True),
        (500.0, 1, True),
        (500.1, 1, False),
        (1000.0, 2, True),
        (0.0, 1, False),
        (-1.0, 1, False),
        (math.nan, 1, False),
        (math.inf, 1, False),
        (1e9, 8, False),
        (1e9, 10**9, False),
        (None, 1, False),
    ],
)
def test_a_rate_is_believed_up_to_what_so_many_gpus_could_make(
    rate: float | None,
    num_gpus: int,
    is_believable: bool,  # noqa: FBT001
) -> None:
    assert believable(rate, num_gpus) is is_believable


@pytest.mark.parametrize(
    ("rates", "rate"),
    [
        ([80.0], 80.0),
        ([10.0, 80.0, 80.0, 80.0, 80.0, 90.0], 82.0),
        ([80.0, 0.0, math.nan, 1e9, -3.0], 80.0),
        ([0.0, math.inf], None),
        ([], None),
    ],
    ids=["one", "the mean of the last five", "nonsense is left out", "nothing but nonsense", "never measured"],
)
def test_a_host_is_known_by_the_mean_of_its_last_believable_benchmarks(rates: list[float], rate: float | None) -> None:
    assert rate_of_host(rates, 1) == rate


@pytest.mark.parametrize(
    ("ram_gb", "least"), [(0, 0), (127.9, 0), (128, 128), (300, 256), (2048, 768), (math.nan, 0), (-1, 0)]
)
def test_memory_falls_into_the_class_that_it_fills(ram_gb: float, least: int) -> None:
    assert ram_class(ram_gb) == least


def hosts(*rates: float, ram_gb: float | None = 800.0, gpu: str = "RTX 5090") -> list[Any]:
    """So many hosts of one kind, each measured at one of these rates."""
    return [((f"m{n}", gpu, 1), ram_gb, rate) for n, rate in enumerate(rates)]


@pytest.mark.parametrize(
    ("measured", "kinds"),
    [
        (hosts(80.0, 90.0), {}),
        (hosts(80.0, 90.0, 100.0), {KIND: 90.0}),
        (hosts(80.0, 90.0, 1.0, 85.0), {KIND: 82.5}),
        ([*hosts(80.0, 90.0), *hosts(70.0, ram_gb=400.0)], {}),
        ([*hosts(80.0, 90.0), *hosts(70.0, gpu="RTX 4090")], {}),
        (hosts(80.0, 90.0, 100.0, ram_gb=None), {}),
    ],
    ids=[
        "two hosts are too few",
        "three speak for others",
        "an odd one among them counts little",
        "other memory is another kind",
        "another GPU too",
        "unknown memory is no kind",
    ],
)
def test_machines_alike_are_known_once_enough_hosts_were_measured(measured: Any, kinds: dict[Any, float]) -> None:
    assert rates_of_kinds(measured) == kinds
