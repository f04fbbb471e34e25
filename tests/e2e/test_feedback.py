"""What people say: a message and an acknowledged alert reach the model verbatim, once, whatever happens on the way."""

from support.stage import Stage
from support.steering import (
    apply_idle,
    called,
    hold_model,
    prompts,
    release_model,
    request_and_wait,
    times_said,
    wait_until_held,
)

MESSAGE = "prefer hosts in the EU, “même” if dearer 🚀"


def raise_an_alert(stage: Stage) -> tuple[int, str]:
    """Let the model raise one; its id, and the words with which its acknowledgement is told."""
    stage.annotate(message="[sim] alert warning the pager test")
    stage.wait_for(lambda: stage.status().get("openAlerts") == 1, "an alert is open")
    (alert,) = stage.rows("SELECT id, run_id FROM alerts")
    told = f"alert-{alert['id']}: the pager test (run {alert['run_id']})"
    stage.wait_for(lambda: stage.events("Alert") == [told], "people are told its id")
    words = f"The operator acknowledges alert-{alert['id']} (warning: the pager test): known outage"
    return alert["id"], words


def test_message_and_acknowledgement_outlive_a_killed_run_and_stand_once_in_every_later_prompt(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)
    alert_id, acknowledged = raise_an_alert(stage)
    hold_model(stage)
    stage.annotate(message=MESSAGE, acknowledge=f"alert-{alert_id}: known outage")
    wait_until_held(stage, runs=3)

    stage.kill_operator()
    before = len(prompts(stage))
    release_model(stage)
    stage.start_operator()
    stage.wait_for_runs(4)
    request_and_wait(stage, "afterwards")

    later = prompts(stage)[before:]
    assert len(later) > 3
    for words in (MESSAGE, acknowledged):
        assert {times_said(messages, words) for messages in later} == {1}
    assert called(stage)[2:] == [["Feedback"], ["Feedback"], ["Request"]]
    assert [run["state"] for run in stage.runs()[2:]] == ["interrupted", "finished", "finished"]
    assert stage.status()["openAlerts"] == 0
    stage.check_books()


def test_what_is_said_at_once_is_served_in_order_by_one_run_of_the_new_session(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)
    alert_id, acknowledged = raise_an_alert(stage)
    stage.annotate(reset_requested_at="r", message=MESSAGE, acknowledge=f"{alert_id}: known outage", requested_at="q")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "q", "the request is served")
    request_and_wait(stage, "afterwards")

    assert called(stage)[2:] == [["Request", "Feedback"], ["Request"]]
    assert [run["session_id"] for run in stage.runs()[2:]] == [stage.status()["session"]["id"]] * 2
    status = stage.status()
    assert status["lastHandledReset"] == "r"
    assert status["lastHandledAcknowledge"] == f"{alert_id}: known outage"
    assert status["lastHandledMessage"].startswith("sha256:")
    for words in (MESSAGE, acknowledged):
        assert times_said(prompts(stage)[-1], words) == 1


def test_an_acknowledgement_that_makes_no_sense_is_answered_by_an_event_once(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)

    stage.annotate(acknowledge="all of them")
    stage.wait_for(lambda: stage.events("BadAnnotation"), "an Event says so")
    request_and_wait(stage, "afterwards")

    assert len(stage.events("BadAnnotation")) == 1
    assert called(stage) == [["Schedule"], ["Request"]]
