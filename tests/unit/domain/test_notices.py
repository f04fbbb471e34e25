"""What people outside are told of an alert: in which words, when once more, and for how long it is tried."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fleetagent.domain.notices import (
    GIVEN_UP_AFTER,
    Notice,
    NoticeKind,
    Tone,
    again_in,
    batches,
    is_graver,
    is_hopeless,
    says_more,
    words_of,
)
from fleetagent.domain.records import AgentKey

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
KEY = AgentKey("prod", "porep")
URL = "https://fleet.example"


def a_notice(**changes: object) -> Notice:
    usual = Notice(
        id=1,
        alert_id=17,
        kind=NoticeKind.NEW,
        run_id=412,
        code="Model",
        severity="warning",
        message="the market is dear",
        remark=None,
        since=NOON,
        at=NOON,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def test_a_new_alert_says_what_whose_since_when_where_and_how_to_acknowledge_it() -> None:
    words = words_of([a_notice()], KEY, URL)

    assert words.title == "New warning alert-17 (Model), FleetAgent prod/porep"
    assert words.body.splitlines() == [
        "the market is dear",
        "Since 2026-11-29 12:00 UTC, run 412",
        "Page: https://fleet.example/agents/prod/porep/alerts",
        "Acknowledge: kubectl -n prod annotate --overwrite fleetagent porep fleetagent.dev/acknowledge=alert-17",
    ]
    assert words.tone is Tone.WARNING


def test_without_a_public_page_and_without_a_run_neither_is_named() -> None:
    body = words_of([a_notice(run_id=0)], KEY, None).body

    assert "Page" not in body
    assert "run" not in body.splitlines()[1]


@pytest.mark.parametrize(
    ("kind", "severity", "remark", "title", "line", "tone"),
    [
        ("acknowledged", "critical", "known outage", "Acknowledged alert-17", "Comment: known outage", Tone.CALM),
        ("resolved", "critical", None, "Resolved alert-17", "the market is dear", Tone.GOOD),
        (
            "escalated",
            "critical",
            "it says more",
            "Escalated critical alert-17",
            "Told again: it says more",
            Tone.ALARM,
        ),
        ("new", "info", None, "New info alert-17", "the market is dear", Tone.CALM),
    ],
)
def test_what_happened_to_it_is_said_first(
    kind: str, severity: str, remark: str | None, title: str, line: str, tone: Tone
) -> None:
    words = words_of([a_notice(kind=NoticeKind(kind), severity=severity, remark=remark)], KEY, None)

    assert words.title.startswith(title)
    assert line in words.body.splitlines()
    assert words.tone is tone


HOSTILE = (
    "@everyone <!channel> <@U024BE7LH> [click](https://evil.example) <b>x</b> `code` \x1b[31m\x00\u202e\u200b@here "
)


@pytest.mark.parametrize("place", ["message", "remark", "code"])
def test_words_of_models_and_hosts_call_nobody_and_mark_nothing_up(place: str) -> None:
    for count in (1, 9):
        words = words_of([a_notice(**{place: HOSTILE * 50}, kind=NoticeKind.ACKNOWLEDGED)] * count, KEY, None)

        said = words.title + words.body
        assert not set("@<>[]`\x1b\x00\u202e\u200b") & set(said)
        assert len(words.title) < 200
        assert len(words.body) < 2_000


def test_few_go_one_by_one_and_many_as_one_that_names_some_and_counts_the_rest() -> None:
    many = [a_notice(id=n, alert_id=n) for n in range(1, 14)]

    assert batches(many[:3]) == ((many[0],), (many[1],), (many[2],))
    assert batches(many) == (tuple(many),)
    words = words_of(many, KEY, URL)
    assert words.title == "New warning alert-1 (Model) and 12 more, FleetAgent prod/porep"
    assert words.body.splitlines()[7:] == [
        "New warning alert-8 (Model): the market is dear",
        "and 5 more",
        "Page: https://fleet.example/agents/prod/porep/alerts",
    ]


def test_a_message_of_many_is_as_loud_as_the_loudest() -> None:
    quiet = [a_notice(kind=NoticeKind.RESOLVED)] * 4

    assert words_of(quiet, KEY, None).tone is Tone.GOOD
    assert words_of([*quiet, a_notice(severity="critical")], KEY, None).tone is Tone.ALARM


def test_it_is_tried_soon_at_first_then_seldom_and_not_for_ever() -> None:
    waits = [again_in(a_notice(), NOON + timedelta(minutes=m)) for m in (0, 2, 10, 60)]

    assert waits == [timedelta(seconds=15), timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15)]
    assert not is_hopeless(a_notice(), NOON + GIVEN_UP_AFTER - timedelta(seconds=1))
    assert is_hopeless(a_notice(), NOON + GIVEN_UP_AFTER)


@pytest.mark.parametrize(
    ("before", "now", "more"),
    [
        ("over budget: 4.10 USD/h of 4.00", "over budget: 9.00 USD/h of 4.00", False),
        ("machine 33014980 is offline since 12:01", "machine 33014981 is offline since 13:07", False),
        ("the list failed", "the list failed: the key is refused", True),
    ],
)
def test_other_figures_are_no_news_and_other_words_are(before: str, now: str, *, more: bool) -> None:
    assert says_more(now, before) is more


def test_only_a_raised_severity_is_graver() -> None:
    assert is_graver("critical", "info")
    assert not is_graver("info", "warning")
    assert not is_graver("warning", "warning")
    assert not is_graver("critical", "unheard of")
