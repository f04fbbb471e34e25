"""Changes of conditions become Events, once."""

import pytest

from fleetagent.domain.news import News, news
from fleetagent.domain.resource import Condition
from support.fleets import a_condition

LOST = a_condition("FleetKnown", "False", "SecretMissing")


@pytest.mark.parametrize(
    ("old", "new", "told_of_it"),
    [
        ([], [LOST], [News("Warning", "SecretMissing", "FleetKnown is False: words")]),
        (
            [a_condition("FleetKnown", "Unknown")],
            [LOST],
            [News("Warning", "SecretMissing", "FleetKnown is False: words")],
        ),
        ([LOST], [a_condition("FleetKnown", "False", "SecretMissing", message="other words")], []),
        (
            [LOST],
            [a_condition("FleetKnown", "False", "MarketKeyRefused")],
            [News("Warning", "MarketKeyRefused", "FleetKnown is False: words")],
        ),
        ([LOST], [a_condition("FleetKnown", "True", "Listed")], [News("Normal", "Listed", "FleetKnown again: words")]),
        ([], [a_condition("FleetKnown", "True", "Listed")], []),
        ([], [a_condition("OnTarget", "False", "BelowTarget")], []),
        (
            [],
            [LOST, a_condition("Ready", "False", "SecretMissing")],
            [News("Warning", "SecretMissing", "FleetKnown is False: words")],
        ),
        (
            [LOST, a_condition("Ready", "False", "SecretMissing")],
            [a_condition("FleetKnown", "True", "Listed"), a_condition("Ready", "True", "Running")],
            [News("Normal", "Listed", "FleetKnown again: words")],
        ),
        (
            [],
            [a_condition("Ready", "False", "InvalidSchedule")],
            [News("Warning", "InvalidSchedule", "Ready is False: words")],
        ),
        ([], [a_condition("Ready", "False", "Suspended")], [News("Normal", "Suspended", "Ready is False: words")]),
    ],
    ids=[
        "lost at first",
        "lost after it was unknown",
        "other words are no news",
        "another cause is",
        "well again",
        "well from the start",
        "the day's work",
        "Ready repeats nothing",
        "not even that it is well again",
        "Ready tells what no other does",
        "somebody wanted it so",
    ],
)
def test_people_hear_once_of_what_is_lost_and_what_is_well_again(
    old: list[Condition], new: list[Condition], told_of_it: list[News]
) -> None:
    assert list(news(old, new)) == told_of_it
