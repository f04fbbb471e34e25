"""When a run is due, and why."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleetagent.domain.resource import Debounce, Schedule, WakeLimits
from fleetagent.domain.schedule import (
    Due,
    Pending,
    Trigger,
    Wake,
    due,
    next_scheduled,
    scheduled_if_ever,
    wake_at,
)
from fleetagent.errors import BadResource

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
DEBOUNCE = Debounce.read({"idle": "5s", "max": "60s"})


def at(seconds: float) -> datetime:
    """A moment so many seconds from now."""
    return NOW + timedelta(seconds=seconds)


def pending(kind: Trigger, seconds: float = -1) -> Pending:
    """A trigger that was persisted so many seconds from now."""
    return Pending(1, kind, "value", None, at(seconds))


def wake(seconds: float) -> Wake:
    """A wake due so many seconds from now."""
    return Wake(1, at(seconds), "look", 1)


def called(*triggers: Pending, scheduled: float | None = None, wakes: tuple[Wake, ...] = ()) -> Due:
    """What is due now."""
    next_at = at(scheduled) if scheduled is not None else None
    return due(NOW, next_scheduled_at=next_at, pending=triggers, wakes=wakes, debounce=DEBOUNCE)


def test_without_a_reason_nothing_is_due() -> None:
    assert called() == Due((), None)
    assert not called()


@pytest.mark.parametrize(
    ("found", "kinds", "again"),
    [
        (called(scheduled=0), (Trigger.SCHEDULE,), None),
        (called(scheduled=1), (), at(1)),
        (called(wakes=(wake(0),)), (Trigger.WAKE,), None),
        (called(wakes=(wake(0), wake(90)), scheduled=120), (Trigger.WAKE,), at(90)),
        (called(scheduled=-3600), (Trigger.SCHEDULE,), None),
    ],
    ids=["on time", "a second early", "a wake", "the next moment is the soonest", "an hour late is one run"],
)
def test_schedule_and_wakes_are_due_from_their_moment_on(
    found: Due, kinds: tuple[Trigger, ...], again: datetime | None
) -> None:
    assert found == Due(kinds, again)


@pytest.mark.parametrize(
    "kind", [Trigger.REQUEST, Trigger.FEEDBACK, Trigger.SPEC_CHANGE, Trigger.APPROVAL, Trigger.SCHEDULE]
)
def test_whatever_somebody_asked_for_starts_a_run_at_once(kind: Trigger) -> None:
    assert called(pending(kind, 0)) == Due((kind,), None)


@pytest.mark.parametrize(
    ("first", "last", "due_now", "again"),
    [
        (-5, -5, True, None),
        (-4.9, -4.9, False, at(0.1)),
        (-30, -1, False, at(4)),
        (-60, 0, True, None),
        (-58, 0, False, at(2)),
    ],
    ids=["quiet for idle", "not quite", "it goes on", "the longest is reached", "the longest comes before idle"],
)
def test_a_burst_of_fleet_events_becomes_one_run(
    first: float,
    last: float,
    due_now: bool,  # noqa: FBT001 - a column of the table
    again: datetime | None,
) -> None:
    found = called(pending(Trigger.EVENT, first), pending(Trigger.EVENT, last))

    assert found == Due((Trigger.EVENT,) if due_now else (), again)


def test_a_run_that_starts_anyway_takes_waiting_events_along() -> None:
    found = called(pending(Trigger.EVENT, 0), pending(Trigger.REQUEST, 0))

    assert found.kinds == (Trigger.REQUEST, Trigger.EVENT)


def scheduled(last: float | None, **spec: Any) -> datetime:
    """The next moment after now, when the last one was so many seconds from now."""
    return next_scheduled(Schedule.read(spec), after=NOW, last=None if last is None else at(last))


@pytest.mark.parametrize(
    ("last", "seconds"),
    [(None, 300), (0, 300), (-10, 290), (-300, 300), (-3610, 290), (900, 300)],
    ids=[
        "the first",
        "just now",
        "it keeps its beat",
        "a whole interval ago",
        "after an hour of downtime the next beat",
        "a last one far ahead, as after a clock that was set back",
    ],
)
def test_an_interval_keeps_its_beat_and_missed_beats_are_not_made_up_for(last: float | None, seconds: float) -> None:
    assert scheduled(last, interval="5m") == at(seconds)


def test_five_minutes_are_assumed() -> None:
    assert scheduled(None) == at(300)


@pytest.mark.parametrize(
    ("spec", "then"),
    [
        ({"cron": "*/5 * * * *"}, datetime(2026, 11, 29, 12, 5, tzinfo=UTC)),
        ({"cron": "0 8 * * MON-FRI"}, datetime(2026, 11, 30, 8, 0, tzinfo=UTC)),
        ({"cron": "0 8 * * *", "timeZone": "Europe/Berlin"}, datetime(2026, 11, 30, 7, 0, tzinfo=UTC)),
        ({"cron": "0 0 29 2 *"}, datetime(2028, 2, 29, 0, 0, tzinfo=UTC)),
    ],
    ids=["every five minutes", "on working days", "by another zone's clock", "in the next leap year"],
)
def test_cron_is_read_in_its_time_zone(spec: dict[str, str], then: datetime) -> None:
    assert scheduled(None, **spec) == then


@pytest.mark.parametrize(
    ("after", "then"),
    [
        (datetime(2027, 3, 27, 12, 0, tzinfo=UTC), datetime(2027, 3, 28, 1, 0, tzinfo=UTC)),
        (datetime(2027, 10, 30, 12, 0, tzinfo=UTC), datetime(2027, 10, 31, 0, 30, tzinfo=UTC)),
        (datetime(2027, 10, 31, 0, 30, tzinfo=UTC), datetime(2027, 11, 1, 1, 30, tzinfo=UTC)),
    ],
    ids=["an hour that is left out: its end", "an hour that comes twice: the first", "and not the second"],
)
def test_cron_runs_once_a_day_when_clocks_change(after: datetime, then: datetime) -> None:
    schedule = Schedule.read({"cron": "30 2 * * *", "timeZone": "Europe/Berlin"})

    assert next_scheduled(schedule, after=after, last=None) == then


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"cron": "0 0 31 2 *"}, "spec.schedule.cron: '0 0 31 2 *' never comes"),
        ({"cron": "0 0 30 2 *", "timeZone": "Europe/Berlin"}, "spec.schedule.cron"),
        ({"cron": "0 0 * * *", "timeZone": "Mars/Olympus"}, "spec.schedule.timeZone: this operator knows no zone"),
    ],
)
def test_a_schedule_that_never_comes_is_a_problem_of_its_field(spec: dict[str, str], words: str) -> None:
    with pytest.raises(BadResource) as caught:
        scheduled(None, **spec)

    assert (caught.value.condition, caught.value.reason) == ("Ready", "InvalidSchedule")
    assert words in str(caught.value)
    assert scheduled_if_ever(Schedule.read(spec), after=NOW, last=None) is None


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [(30, 1800), (0, 60), (-5, 60), (1e9, 86_400), (24 * 60, 86_400)],
    ids=["as asked", "not at once", "not in the past", "not in years", "the longest"],
)
def test_a_wake_is_moved_to_where_the_spec_allows_it(minutes: float, seconds: float) -> None:
    assert wake_at(minutes, NOW, WakeLimits()) == at(seconds)
