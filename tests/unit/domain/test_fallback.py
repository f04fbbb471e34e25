"""When the controller decides in the model's place, and that people hear of it once each way."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from fleetagent.domain.fallback import controller_decides
from fleetagent.domain.news import News, news
from fleetagent.domain.status import Health, findings, merged
from support.fleets import NOW, a_condition, ago, an_instance, an_observation
from support.manifests import a_parsed_spec

CONTROLLER: dict[str, Any] = {"fallback": "Controller"}


@pytest.mark.parametrize(
    ("spec", "failing_since", "tokens_used_up", "decides"),
    [
        (CONTROLLER, ago(minutes=15), False, True),
        (CONTROLLER, ago(minutes=14, seconds=59), False, False),
        (CONTROLLER, NOW, False, False),
        (CONTROLLER, NOW, True, True),
        (CONTROLLER, None, True, False),
        (CONTROLLER, NOW + timedelta(hours=1), False, False),
        ({}, ago(days=9), True, False),
    ],
    ids=[
        "failing for a quarter of an hour",
        "a second less",
        "one bad answer",
        "no tokens left today: nothing to wait for",
        "the model answered",
        "a clock that was set back",
        "by default nobody decides",
    ],
)
def test_the_controller_decides_only_where_it_may_and_after_a_while(
    spec: dict[str, Any], failing_since: datetime | None, *, tokens_used_up: bool, decides: bool
) -> None:
    found = controller_decides(a_parsed_spec(**spec), failing_since, NOW, tokens_used_up=tokens_used_up)

    assert found is decides


@pytest.mark.parametrize(
    ("spec", "since", "told"),
    [
        (CONTROLLER, ago(hours=1), ("True", "ControllerDecides")),
        (CONTROLLER, None, ("False", "ModelDecides")),
        ({}, None, ("False", "NoFallback")),
    ],
)
def test_a_condition_says_who_decides(spec: dict[str, Any], since: datetime | None, told: tuple[str, str]) -> None:
    seen = an_observation(an_instance())

    finding = {f.type: f for f in findings(a_parsed_spec(**spec), seen, Health(controller_since=since), NOW)}

    assert (finding["ControllerDeciding"].status, finding["ControllerDeciding"].reason) == told
    assert finding["SpecHonoured"].status == "True"


DECIDES = a_condition("ControllerDeciding", "True", "ControllerDecides")
MODEL = a_condition("ControllerDeciding", "False", "ModelDecides")
TAKEN_OVER = News("Warning", "ControllerDecides", "The controller has taken over: words")
GIVEN_BACK = News("Normal", "ModelDecides", "The controller has given back: words")


@pytest.mark.parametrize(
    ("old", "new", "heard"),
    [
        ([], [MODEL], []),
        ([], [DECIDES], [TAKEN_OVER]),
        ([MODEL], [DECIDES], [TAKEN_OVER]),
        ([DECIDES], [DECIDES], []),
        ([DECIDES], [MODEL], [GIVEN_BACK]),
        ([MODEL], [MODEL], []),
    ],
    ids=["at first", "at once", "taken over", "still", "given back", "nothing new"],
)
def test_people_hear_once_that_it_took_over_and_once_that_it_gave_back(old: Any, new: Any, heard: list[News]) -> None:
    assert list(news(old, new)) == heard


def test_the_moment_of_the_change_stands_in_the_condition() -> None:
    spec = a_parsed_spec(**CONTROLLER)
    seen = an_observation(an_instance())

    first = merged((), findings(spec, seen, Health(), NOW), NOW, 1)
    later = merged(first, findings(spec, seen, Health(controller_since=NOW), NOW), NOW + timedelta(hours=1), 1)

    changed = {c.type: c.last_transition_time for c in later}
    assert changed["ControllerDeciding"] == NOW + timedelta(hours=1)
