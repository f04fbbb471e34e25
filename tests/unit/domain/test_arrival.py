"""How long until a machine proves."""

import math

import pytest

from fleetagent.domain.arrival import minutes_left, minutes_to_prove
from fleetagent.domain.fleet import Phase
from support.fleets import NOW, ago, an_instance


@pytest.mark.parametrize(
    ("mbps", "minutes"),
    [(1000, 49), (100, 109), (500, 55), (0, 55), (math.nan, 55), (math.inf, 55), (-1, 55), (0.001, 709)],
)
def test_a_machine_proves_after_loading_fetching_and_its_benchmark(mbps: float, minutes: int) -> None:
    assert round(minutes_to_prove(mbps)) == minutes


@pytest.mark.parametrize(
    ("phase", "since", "minutes"),
    [
        (Phase.REQUESTED, 0, 55),
        (Phase.LOADING, 5, 50),
        (Phase.LOADING, 60, 47),
        (Phase.REGISTERED, 3, 44),
        (Phase.BENCHMARKING, 10, 24),
        (Phase.BENCHMARKING, 90, 0),
        (Phase.PROVING, 0, 0),
        (Phase.STOPPING, 0, 0),
    ],
)
def test_what_has_passed_of_a_phase_is_not_waited_for_again(phase: Phase, since: int, minutes: int) -> None:
    assert round(minutes_left(an_instance("1", phase, phase_since=ago(minutes=since)), NOW)) == minutes
