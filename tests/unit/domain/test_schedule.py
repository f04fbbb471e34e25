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
    next_planned,
    next_scheduled,
    spread,
    starts_at,
    wake_at,
)
from fleetagent.errors import BadResource
from support.manifests import a_parsed_spec

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
UID = "0c8f2f5e-0000-4000-8000-000000000001"
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
    """The next moment after now, but for the agent's spread, when the last one was so many seconds from now."""
    schedule = Schedule.read(spec)
    moved = spread(schedule, UID)
    if schedule.every is None:
        return next_scheduled(schedule, UID, after=NOW + moved, last=None) - moved
    found = next_scheduled(schedule, UID, after=NOW, last=None if last is None else at(last))
    return found + moved if last is None or at(last) > NOW + schedule.every else found


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
    assert next_planned(a_parsed_spec(schedule=spec), UID, after=NOW, last=None) is None


UIDS = [f"0c8f2f5e-0000-4000-8000-{number:012d}" for number in range(1000)]


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ({"interval": "10s"}, 1.0),
        ({"interval": "5m"}, 30.0),
        ({"interval": "24h"}, 30.0),
        ({"cron": "* * * * *"}, 30.0),
    ],
    ids=str,
)
def test_a_thousand_agents_are_spread_evenly_and_stay_where_they_are(spec: dict[str, str], most: float) -> None:
    schedule = Schedule.read(spec)
    moved = [spread(schedule, uid).total_seconds() for uid in UIDS]

    assert moved == [spread(Schedule.read(spec), uid).total_seconds() for uid in UIDS]
    assert all(0 <= seconds < most for seconds in moved)
    tenths = [sum(n <= seconds / most * 10 < n + 1 for seconds in moved) for n in range(10)]
    assert min(tenths) > 70
    assert max(tenths) < 130


def test_cron_keeps_its_minute_and_no_moment_of_it_is_skipped_or_repeated() -> None:
    every_minute = Schedule.read({"cron": "* * * * *"})
    for uid in UIDS[:50]:
        moved, moments, moment = spread(every_minute, uid), [], NOW
        for _ in range(5):
            moment = next_scheduled(every_minute, uid, after=moment, last=moment)
            moments.append(moment)

        assert [m - moved for m in moments] == [at(60 * n) for n in range(1 if moved == timedelta(0) else 0, 5)]
        assert next_scheduled(every_minute, uid, after=moments[1] - timedelta(seconds=1), last=None) == moments[1]


def test_the_first_gap_of_an_interval_is_shorter_and_every_later_one_is_exact() -> None:
    schedule = Schedule.read({"interval": "5m"})
    for uid in UIDS[:50]:
        first = next_scheduled(schedule, uid, after=NOW, last=None)
        second = next_scheduled(schedule, uid, after=first, last=first)

        assert at(270) < first <= at(300)
        assert second - first == timedelta(minutes=5)


def test_what_nobody_watched_come_due_starts_in_turn_and_all_else_at_its_moment() -> None:
    schedule, uid = Schedule.read({"interval": "1h"}), UIDS[7]

    def start(planned: float | None) -> datetime | None:
        moment = None if planned is None else at(planned)
        return starts_at(schedule, uid, planned=moment, watched_since=NOW)

    assert start(-7200) == start(-1) == NOW + spread(schedule, uid)
    assert spread(schedule, uid) > timedelta(0)
    assert (start(0), start(600), start(None)) == (NOW, at(600), None)


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [(30, 1800), (0, 60), (-5, 60), (1e9, 86_400), (24 * 60, 86_400)],
    ids=["as asked", "not at once", "not in the past", "not in years", "the longest"],
)
def test_a_wake_is_moved_to_where_the_spec_allows_it(minutes: float, seconds: float) -> None:
    assert wake_at(minutes, NOW, WakeLimits()) == at(seconds)


@pytest.mark.parametrize(
    ("schedule", "until", "seconds"),
    [
        ({"interval": "1h"}, 600, 600),
        ({"interval": "1h"}, 7200, 3600),
        ({"interval": "1h"}, -60, 3600),
        ({"cron": "0 0 30 2 *"}, 600, 600),
    ],
    ids=["before the next run", "long after it", "it is over", "a schedule that never comes"],
)
def test_the_end_of_a_pause_calls_for_a_run(schedule: dict[str, str], until: float, seconds: float) -> None:
    spec = a_parsed_spec(schedule=schedule, pause={"until": f"{at(until):%Y-%m-%dT%H:%M:%SZ}"})
    moved = spread(spec.schedule, UID)

    planned = next_planned(spec, UID, after=NOW, last=NOW)

    assert planned == at(seconds) + (moved if seconds == until else timedelta(0))
    assert next_planned(spec, UID, after=planned, last=planned) != planned
