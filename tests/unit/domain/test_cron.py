"""Cron by the clock on the wall: hours that are left out or come twice, days that never were, whose month is short."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from fleetagent.domain.resource import Schedule
from fleetagent.domain.schedule import next_scheduled, spread

UID = "0c8f2f5e-0000-4000-8000-000000000001"


def moments(cron: str, zone: str | None, after: str, count: int) -> list[str]:
    """The next ones in UTC, each asked for just after the one before it, without the agent's own spread."""
    schedule = Schedule.read({"cron": cron, "timeZone": zone})
    moved, found = spread(schedule, UID), []
    now = datetime.fromisoformat(f"{after}:00+00:00")
    for _ in range(count):
        planned = next_scheduled(schedule, UID, after=now, last=None)
        assert planned > now
        now = planned + timedelta(milliseconds=20)
        assert (planned - moved).astimezone(UTC).second == 0
        found.append(f"{planned - moved:%Y-%m-%dT%H:%M}")
    return found


@pytest.mark.parametrize(
    ("zone", "after", "then"),
    [
        ("Europe/Berlin", "2027-03-27T12:00", ["2027-03-28T01:00", "2027-03-29T00:30"]),
        ("Europe/Berlin", "2027-10-30T12:00", ["2027-10-31T00:30", "2027-11-01T01:30"]),
        ("Europe/Berlin", "2027-10-31T01:10", ["2027-11-01T01:30"]),
        ("America/New_York", "2027-03-13T12:00", ["2027-03-14T07:00", "2027-03-15T06:30"]),
        ("America/New_York", "2027-11-06T12:00", ["2027-11-07T07:30", "2027-11-08T07:30"]),
        ("Australia/Lord_Howe", "2027-10-02T12:00", ["2027-10-02T15:30", "2027-10-03T15:30"]),
        ("Pacific/Apia", "2011-12-28T13:00", ["2011-12-29T12:30", "2011-12-30T10:00", "2011-12-30T12:30"]),
    ],
    ids=[
        "an hour that is left out: its end",
        "an hour that comes twice: the first of them, and the next day",
        "in the second of them it is over",
        "New York leaves two o'clock out",
        "New York's second hour is one o'clock",
        "half an hour that is left out",
        "a whole day that is left out: its end",
    ],
)
def test_half_past_two_comes_once_for_each_date_when_clocks_change(zone: str, after: str, then: list[str]) -> None:
    assert moments("30 2 * * *", zone, after, len(then)) == then


@pytest.mark.parametrize(
    ("zone", "after"),
    [
        ("Europe/Berlin", "2027-03-27T23:30"),
        ("Europe/Berlin", "2027-10-30T22:30"),
        ("America/New_York", "2027-11-07T03:30"),
        ("Australia/Lord_Howe", "2027-04-03T12:30"),
        ("Pacific/Apia", "2011-12-30T07:30"),
    ],
)
def test_every_half_hour_is_every_half_hour_whatever_the_clocks_do(zone: str, after: str) -> None:
    found = [datetime.fromisoformat(m) for m in moments("*/30 * * * *", zone, after, 12)]

    assert {b - a for a, b in pairwise(found)} == {timedelta(minutes=30)}


def test_a_quarter_to_two_comes_once_where_only_half_an_hour_is_repeated() -> None:
    assert moments("45 1 * * *", "Australia/Lord_Howe", "2027-04-03T12:00", 2) == [
        "2027-04-03T14:45",
        "2027-04-04T15:15",
    ]


@pytest.mark.parametrize(
    ("cron", "after", "then"),
    [
        ("0 0 29 2 *", "2026-11-29T12:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 12 31 * *", "2026-11-29T12:00", ["2026-12-31T12:00", "2027-01-31T12:00", "2027-03-31T12:00"]),
        ("0 8 1 * MON", "2026-11-29T12:00", ["2026-11-30T08:00", "2026-12-01T08:00", "2026-12-07T08:00"]),
        ("0 8 * * MON-FRI", "2026-12-04T12:00", ["2026-12-07T08:00"]),
        ("0 8 * * 7", "2026-11-29T12:00", ["2026-12-06T08:00"]),
        ("0 8 * JAN 0", "2026-11-29T12:00", ["2027-01-03T08:00"]),
        ("15,45 * * * *", "2026-11-29T12:40", ["2026-11-29T12:45", "2026-11-29T13:15"]),
    ],
    ids=[
        "leap days",
        "the 31st, where there is one",
        "a day of the month or a weekday, whichever comes",
        "working days",
        "seven is Sunday",
        "names of months",
        "a list",
    ],
)
def test_cron_means_what_debians_cron_means(cron: str, after: str, then: list[str]) -> None:
    assert moments(cron, None, after, len(then)) == then
