"""Wakes that the model asks for: shown while they wait, fired once and never again, bounded by the spec."""

from datetime import datetime, timedelta
from typing import Any

from support.stage import Stage
from support.steering import apply_idle, called, request_and_wait


def pending(stage: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stage.status().get("pendingWakes", [])
    return found


def test_a_wake_is_shown_fires_once_and_is_not_processed_again_after_three_restarts(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage, schedule={"wakes": {"min": "15s"}})

    stage.annotate(message="[sim] wake in 0")
    stage.wait_for(lambda: pending(stage), "the wake is shown")
    (wake,) = pending(stage)
    assert wake["askedByRun"] == 2
    stage.wait_for_runs(3)
    request_and_wait(stage, "later")
    for number in range(3):
        stage.restart_operator()
        request_and_wait(stage, f"after restart {number}")

    assert called(stage) == [["Schedule"], ["Feedback"], ["Wake"], *[["Request"]] * 4]
    (row,) = stage.rows("SELECT * FROM wakes")
    assert (row["id"], row["state"], row["claimed_by_run"]) == (wake["id"], "processed", 3)
    assert stage.runs()[2]["started_at"] >= row["at"]
    assert pending(stage) == []
    told = f"Your check #{wake['id']} is due"
    runs_told = {r["run_id"] for r in stage.rows("SELECT * FROM messages WHERE content LIKE %s", f"%{told}%")}
    assert runs_told == {3}


def test_wakes_are_clamped_counted_and_cancelled(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage, schedule={"wakes": {"min": "1h", "max": "2h", "limit": 2}})

    def asks(minutes: int, reason: str) -> str:
        return f'[sim] call schedule_next_check {{"minutes": {minutes}, "reason": "{reason}"}}'

    stage.annotate(message="\n".join([asks(1, "soon"), asks(99_999, "late"), asks(70, "too many")]))
    stage.wait_for(lambda: len(pending(stage)) == 2, "two wakes are shown")
    soon, late = pending(stage)
    asked_at = stage.runs()[1]["started_at"]
    for wake, after in ((soon, timedelta(hours=1)), (late, timedelta(hours=2))):
        assert abs(datetime.fromisoformat(wake["at"]) - asked_at - after) < timedelta(minutes=1)
    refusals = stage.rows("SELECT content FROM messages WHERE role = 'tool' AND content LIKE '%%cancel one first%%'")
    assert len(refusals) > 0

    stage.annotate(message=f'[sim] call cancel_check {{"id": {soon["id"]}}}')
    stage.wait_for(lambda: pending(stage) == [late], "one wake is left")

    assert called(stage) == [["Schedule"], ["Feedback"], ["Feedback"]]
