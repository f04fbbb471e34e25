"""How long a host that failed is left out, and how it is forgiven."""

from datetime import timedelta

import pytest

from fleetagent.domain.hosts import failures_left, left_out_for
from support.fleets import NOW, ago


@pytest.mark.parametrize(("failures", "hours"), [(1, 1), (2, 2), (3, 4), (7, 64), (8, 128), (9, 168), (10**6, 168)])
def test_each_failure_doubles_the_time_up_to_a_week(failures: int, hours: int) -> None:
    assert left_out_for(failures) == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("span", "left"),
    [
        ({"hours": 71, "minutes": 59}, 4),
        ({"days": 3}, 3),
        ({"days": 6}, 2),
        ({"days": 12}, 0),
        ({"days": 900}, 0),
        ({"days": -5}, 4),
    ],
    ids=["not yet", "one is forgiven", "two are", "all are", "never less than none", "a clock set back forgives none"],
)
def test_time_without_a_failure_forgives_one_after_the_other(span: dict[str, float], left: int) -> None:
    assert failures_left(4, ago(**span), NOW) == left


def test_a_host_that_goes_on_failing_is_left_out_longer_each_time() -> None:
    now, failures, last, spans = NOW, 0, None, []
    for _ in range(9):
        failures = failures_left(failures, last, now) + 1
        spans.append(left_out_for(failures))
        last, now = now, now + left_out_for(failures)

    assert spans == sorted(spans)
    assert spans[0] == timedelta(hours=1)
    assert max(spans) >= timedelta(days=2)


def test_a_host_whose_failures_were_never_dated_keeps_them() -> None:
    assert failures_left(2, None, NOW) == 2
