"""Since when something waits for a run, and how late a run began: what the metrics tell of it."""

from datetime import datetime, timedelta

import pytest

from fleetagent.domain.resource import Debounce
from fleetagent.domain.schedule import Pending, Trigger, Wake, waits_since, was_due_at
from support.fleets import NOW, ago

DEBOUNCE = Debounce(idle=timedelta(seconds=5), max=timedelta(seconds=60))


def pending(kind: Trigger, at: datetime, *, taken_up: bool = False) -> Pending:
    return Pending(1, kind, "value", None, at, taken_up)


def a_wake(at: datetime, *, taken_up: bool = False) -> Wake:
    return Wake(1, at, "to see", 1, taken_up)


@pytest.mark.parametrize(
    ("planned", "triggers", "wakes", "due"),
    [
        (ago(seconds=3), (), (), ago(seconds=3)),
        (None, (pending(Trigger.REQUEST, ago(seconds=2)),), (), ago(seconds=2)),
        (None, (), (a_wake(ago(minutes=1)),), ago(minutes=1)),
        (ago(seconds=3), (pending(Trigger.SCHEDULE, ago(seconds=1)),), (), ago(seconds=3)),
        (None, (pending(Trigger.EVENT, ago(seconds=20)),), (), ago(seconds=15)),
        (ago(seconds=1), (pending(Trigger.EVENT, ago(seconds=4)),), (), ago(seconds=1)),
        (None, (pending(Trigger.EVENT, ago(seconds=2)),), (), None),
        (None, (), (), None),
    ],
    ids=[
        "as planned",
        "a request when it came",
        "a wake at its moment",
        "the plan, not when it was written down",
        "events when their burst was over",
        "not for events that it took along early",
        "a burst that is not over is not due",
        "nobody knows",
    ],
)
def test_a_run_was_due_at_the_first_moment_of_what_called_for_it(
    planned: datetime | None, triggers: tuple[Pending, ...], wakes: tuple[Wake, ...], due: datetime | None
) -> None:
    assert was_due_at(NOW, planned=planned, pending=triggers, wakes=wakes, debounce=DEBOUNCE) == due


def test_what_waits_is_the_oldest_that_no_run_has_taken_up() -> None:
    triggers = (pending(Trigger.EVENT, ago(seconds=9), taken_up=True), pending(Trigger.REQUEST, ago(seconds=4)))
    wakes = (a_wake(ago(seconds=6)), a_wake(ago(seconds=8), taken_up=True), a_wake(NOW + timedelta(hours=1)))

    assert waits_since(NOW, triggers, wakes) == ago(seconds=6)
    assert waits_since(NOW, triggers, wakes[1:]) == ago(seconds=4)
    assert waits_since(NOW, triggers[:1], wakes[1:]) is None
