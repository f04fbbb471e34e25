"""The lines of the Secret that alerts go to, and what the condition says of them."""

import pytest

from fleetagent.domain.receivers import MOST_RECEIVERS, Receiver, Standing, delivered, receivers_in
from fleetagent.domain.status import Finding
from fleetagent.errors import BadResource
from support.fleets import a_condition

FAILED = Finding("AlertsDelivered", "False", "ReceiverFailed", "line 1 did not take it")
WRONG = Finding("AlertsDelivered", "False", "SecretMissing", "make it")


def test_each_line_is_a_receiver_but_for_comments_and_repetitions() -> None:
    found = receivers_in("# on call\n\n  json://a.example/x  \r\nslack://T/B/C\njson://a.example/x\n")

    assert [(r.line, r.schema) for r in found] == [(3, "json"), (4, "slack")]


def test_a_receiver_is_shown_by_line_and_service_alone() -> None:
    receiver = Receiver(4, "slack://TOKEN/B/C")

    assert receiver.name == "line 4 (slack://)"
    assert "TOKEN" not in repr(receiver)
    assert len(receiver.mark) == 8
    assert Receiver(1, "secret-without-a-scheme").name == "line 1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "NoURL"),
        ("# nobody\n", "NoURL"),
        ("\n".join(f"json://a.example/{n}" for n in range(MOST_RECEIVERS + 1)), "TooManyURLs"),
    ],
    ids=["empty", "only a comment", "too many"],
)
def test_a_value_that_names_nobody_or_too_many_is_refused_with_the_field(text: str, reason: str) -> None:
    with pytest.raises(BadResource) as caught:
        receivers_in(text)

    assert (caught.value.condition, caught.value.reason) == ("AlertsDelivered", reason)
    assert str(caught.value).startswith("spec.alerts.notifySecretRef: ")


@pytest.mark.parametrize(
    ("asked", "standing", "status", "reason"),
    [
        (False, None, "Unknown", "NoReceivers"),
        (True, None, "Unknown", "NotLookedAtYet"),
        (True, Standing(None, was_sent=False), "True", "NothingWaits"),
        (True, Standing(None, was_sent=True), "True", "NothingWaits"),
        (True, Standing(WRONG, was_sent=False), "False", "SecretMissing"),
    ],
)
def test_the_condition_says_how_it_stands(
    asked: bool,  # noqa: FBT001
    standing: Standing | None,
    status: str,
    reason: str,
) -> None:
    finding = delivered(asked=asked, standing=standing, before=())

    assert (finding.status, finding.reason) == (status, reason)


def test_what_a_process_before_has_lost_is_said_until_a_message_is_taken() -> None:
    before = (a_condition("AlertsDelivered", "False", "GivenUp"),)

    for unknown in (None, Standing(None, was_sent=False)):
        assert delivered(asked=True, standing=unknown, before=before).reason == "GivenUp"
    assert delivered(asked=True, standing=Standing(None, was_sent=True), before=before).reason == "NothingWaits"
    assert delivered(asked=False, standing=None, before=before).reason == "NoReceivers"
