"""The verbs as patches: the same limits as the resource, and nobody's decision overwritten."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.approval import MOST_IDS, named_in
from fleetagent.domain.patches import VERBS, read_verb
from fleetagent.domain.said import ACKNOWLEDGEMENT, MOST_COMMENT_CHARS, MOST_FEEDBACK_CHARS, value_of
from fleetagent.errors import BadRequest

NOW = datetime(2026, 12, 1, 8, 0, 0, 250_000, UTC)
PREFIX = "fleetagent.dev/"


def stored(status: Mapping[str, str] | None = None, /, **annotations: str) -> dict[str, Any]:
    """A FleetAgent with these annotations."""
    said = {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()}
    return {"metadata": {"resourceVersion": "7", "annotations": said}, "status": dict(status or {})}


def annotation(verb: str, body: dict[str, Any], before: dict[str, Any] | None = None) -> str:
    """The one value that the verb writes."""
    patch = read_verb(verb, body).patch(before or stored(), NOW)
    (value,) = patch["metadata"]["annotations"].values()
    return str(value)


def complaint(verb: str, body: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        read_verb(verb, body).patch(stored(), NOW)
    return str(caught.value)


@pytest.mark.parametrize(("verb", "name"), [("request", "requested-at"), ("reset", "reset-requested-at")])
def test_a_request_is_the_moment_at_which_it_was_made(verb: str, name: str) -> None:
    patch = read_verb(verb, {}).patch(stored(), NOW)

    assert patch == {"metadata": {"annotations": {PREFIX + name: "2026-12-01T08:00:00.250000Z"}}}


def test_a_message_is_said_as_it_is() -> None:
    assert annotation("message", {"text": "prefer hosts\nin the EU"}) == "prefer hosts\nin the EU"


def test_the_same_words_said_again_are_a_new_value_each_time() -> None:
    once = annotation("message", {"text": "run"}, stored())
    twice = annotation("message", {"text": "run"}, stored(message=once))
    thrice = annotation("message", {"text": "run"}, stored(message=twice))

    assert len({value_of("message", each) for each in (once, twice)}) == 2
    assert thrice != twice


def test_the_same_alert_acknowledged_again_is_a_new_value_that_reads_the_same() -> None:
    again = annotation("acknowledge", {"alert": 17}, stored(acknowledge="alert-17"))
    found = ACKNOWLEDGEMENT.match(again)

    assert again != "alert-17"
    assert found
    assert found.groups() == ("17", None)


@pytest.mark.parametrize(
    ("alert", "comment", "written"),
    [
        ("alert-17", "", "alert-17"),
        ("17", "known outage", "alert-17: known outage"),
        (17, " known: until Friday\n", "alert-17: known: until Friday"),
    ],
)
def test_an_acknowledgement_is_what_kubectl_would_write(alert: Any, comment: str, written: str) -> None:
    assert annotation("acknowledge", {"alert": alert, "comment": comment}) == written


def test_what_takes_the_place_of_something_names_the_version_that_it_has_seen() -> None:
    bodies: dict[str, dict[str, Any]] = {
        "message": {"text": "x"},
        "acknowledge": {"alert": "1"},
        "approve": {"actions": ["1"]},
        "reject": {"actions": ["1"]},
    }

    for verb, body in bodies.items():
        assert read_verb(verb, body).patch(stored(), NOW)["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_decision_is_added_to_one_that_is_not_served_yet(verb: str) -> None:
    before = stored(**{verb: "action-42"})

    assert annotation(verb, {"actions": ["action-43", 42]}, before) == "action-42,action-43"


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_decision_that_was_served_is_not_said_again(verb: str) -> None:
    before = stored({f"lastHandled{verb.capitalize()}": "action-42"}, **{verb: "action-42"})

    assert annotation(verb, {"actions": ["action-43"]}, before) == "action-43"


def test_an_approval_adds_no_rejection_to_itself() -> None:
    assert annotation("approve", {"actions": ["action-43"]}, stored(reject="action-42")) == "action-43"


def test_more_than_one_annotation_may_name_is_refused_and_not_cut() -> None:
    many = ",".join(f"action-{n}" for n in range(1, MOST_IDS + 1))

    with pytest.raises(BadRequest, match="actions: "):
        read_verb("approve", {"actions": ["action-999"]}).patch(stored(approve=many), NOW)


@given(st.lists(st.integers(0, 10**18 - 1), min_size=1, max_size=MOST_IDS, unique=True))
def test_the_operator_reads_exactly_the_actions_that_were_meant(ids: list[int]) -> None:
    assert named_in(annotation("approve", {"actions": [f"action-{each}" for each in ids]})) == (tuple(ids), ())


def test_a_pause_for_a_time_ends_then() -> None:
    body = {"for": "1h30m", "reason": "market too dear", "directions": ["Up", "Down", "Up"]}

    assert read_verb("pause", body).patch(stored(), NOW) == {
        "spec": {"pause": {"until": "2026-12-01T09:30:00Z", "reason": "market too dear", "directions": ["Up", "Down"]}}
    }


def test_of_an_earlier_pause_nothing_stays() -> None:
    pause = read_verb("pause", {"until": "2026-12-02T08:00:00+02:00"}).patch(stored(), NOW)["spec"]["pause"]

    assert pause == {"until": "2026-12-02T06:00:00Z", "reason": None, "directions": ["Up"]}


def test_to_resume_takes_the_pause_away() -> None:
    assert read_verb("resume", {}).patch(stored(), NOW) == {"spec": {"pause": None}}


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("message", {}, "text"),
        ("message", {"text": " \n"}, "text"),
        ("message", {"text": "\x00\x07"}, "text"),
        ("message", {"text": "x" * (MOST_FEEDBACK_CHARS + 1)}, "text"),
        ("message", {"text": 7}, "text"),
        ("acknowledge", {"alert": ""}, "alert"),
        ("acknowledge", {"alert": "alert-1: with a comment"}, "alert"),
        ("acknowledge", {"alert": "1" * 13}, "alert"),
        ("acknowledge", {"alert": "1", "comment": "x" * (MOST_COMMENT_CHARS + 1)}, "comment"),
        ("approve", {"actions": []}, "actions"),
        ("approve", {"actions": "action-1"}, "actions"),
        ("approve", {"actions": ["action-1,action-2"]}, "actions"),
        ("approve", {"actions": ["all"]}, "actions"),
        ("approve", {"actions": [""]}, "actions"),
        ("reject", {"actions": [1.5]}, "actions"),
        ("reject", {"actions": list(range(MOST_IDS + 1))}, "actions"),
        ("pause", {}, "for"),
        ("pause", {"for": "2h", "until": "2026-12-02T08:00:00Z"}, "for"),
        ("pause", {"for": "0s"}, "for"),
        ("pause", {"for": "9999d"}, "for"),
        ("pause", {"for": "two hours"}, "for"),
        ("pause", {"until": "2026-12-01T08:00:00Z"}, "until"),
        ("pause", {"until": "tomorrow"}, "until"),
        ("pause", {"until": "2026-12-02T08:00:00"}, "until"),
        ("pause", {"for": "2h", "reason": "a\nb"}, "reason"),
        ("pause", {"for": "2h", "reason": "x" * 1025}, "reason"),
        ("pause", {"for": "2h", "directions": []}, "directions"),
        ("pause", {"for": "2h", "directions": ["Sideways"]}, "directions"),
        ("request", {"at": "now"}, "at"),
    ],
)
def test_what_the_resource_would_not_take_is_refused_with_the_fields_name(verb: str, body: Any, field: str) -> None:
    assert complaint(verb, body).startswith(field)


def test_an_unknown_verb_is_told_which_there_are() -> None:
    assert all(verb in complaint("destroy", {}) for verb in VERBS)
