"""Characters that a database or Kubernetes can't take, all the way: runs are served, status and Events are clean."""

import re
from collections.abc import Iterator
from typing import Any

from fleetagent.sim.model.faults import CATALOGUE
from support.asking import ask
from support.stage import NAME, Stage
from support.steering import apply_idle, request_and_wait

ODD = "\x00 \x1b[31m \ufffe \u202e"
UNWANTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
FAULTS = sorted(name for name in CATALOGUE if name.startswith(("A43", "B49")))


def texts(stored: Any) -> Iterator[str]:
    """Every string in it, keys aside."""
    if isinstance(stored, str):
        yield stored
    elif isinstance(stored, dict | list):
        for each in stored.values() if isinstance(stored, dict) else stored:
            yield from texts(each)


def unwanted_in(stored: Any) -> list[str]:
    return [text for text in texts(stored) if UNWANTED.search(text)]


def test_whatever_a_model_server_sends_each_request_is_served_and_the_next_one_too(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)

    for name in FAULTS:
        stage.model.put("faults", {"name": name, "times": 1})
        request_and_wait(stage, f"odd {name}")
        request_and_wait(stage, f"plain after {name}")
        assert unwanted_in(stage.resource()) == [], name

    assert {run["state"] for run in stage.runs()} == {"finished"}
    assert stage.status()["lastRunID"] == 1 + 2 * len(FAULTS)
    stage.check_books()


def test_an_alert_and_a_persons_word_with_odd_characters_reach_event_status_and_model(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)

    ask(stage, [{"name": "raise_alert", "arguments": {"severity": "warning", "message": f"dear {ODD} market"}}])
    stage.wait_for(lambda: stage.status().get("openAlerts") == 1, "the alert is counted")
    stage.annotate(message=f"be {ODD[1:]} frugal")
    stage.wait_for(lambda: len([r for r in stage.runs() if r["triggers"] == ["Feedback"]]) == 1, "it is heard")
    request_and_wait(stage, "afterwards")

    events = stage.cluster.api.call("GET", f"/api/v1/namespaces/{stage.namespace}/events")["items"]
    told = [event["message"] for event in events if "dear" in event["message"]]
    assert told
    assert events
    assert unwanted_in([event["message"] for event in events]) == []
    assert all(event["involvedObject"]["name"] == NAME for event in events)
    assert unwanted_in(stage.status()) == []
    stage.check_books()
