"""Suspended in the middle of a run: it ends at once, without another effect; what came meanwhile is not forgotten."""

from support.stage import Stage
from support.steering import called, hold_model, patch, release_model, request_and_wait, wait_until_held


def test_a_run_ends_when_its_agent_is_suspended_and_all_that_waited_calls_for_one_run_afterwards(stage: Stage) -> None:
    stage.start_operator()
    hold_model(stage)
    stage.apply(spec={"target": {"proofsPerHour": 50}, "schedule": {"interval": "24h"}})
    wait_until_held(stage, runs=1)

    patch(stage, '{"spec":{"mode":"Suspended"}}')
    stage.wait_for(lambda: stage.condition("Suspended").get("status") == "True", "the status says Suspended")
    release_model(stage)
    stage.annotate(requested_at="meanwhile", message="prefer the EU")
    waiting = "SELECT * FROM triggers WHERE kind = 'Feedback' AND state = 'pending'"
    stage.wait_for(lambda: stage.rows(waiting), "the message is written down")
    status = stage.status()

    assert [(r["state"], r["error"]) for r in stage.runs()] == [("interrupted", "spec.mode is Suspended")]
    assert status["lastRun"]["outcome"] == "Interrupted"
    assert status["observedGeneration"] == 2
    assert "nextRunAt" not in status
    assert stage.rows("SELECT * FROM actions") == []

    patch(stage, '{"spec":{"mode":"Act"}}')
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "meanwhile", "the request is served")
    stage.wait_for_target()
    request_and_wait(stage, "afterwards")

    assert called(stage)[1] == ["Schedule", "Request", "SpecChange", "Feedback"]
    assert stage.runs()[1]["outcome"] == "Acted"
    stage.check_books()
