"""A reset: a new conversation for the same agent. Runs count on, machines and wakes stay, old runs reach nothing."""

from support.stage import Stage
from support.steering import (
    IDLE,
    apply_idle,
    called,
    hold_model,
    patch,
    prompts,
    release_model,
    request_and_wait,
    times_said,
    wait_until_held,
)

FAR_WAKE = "[sim] wake in 600"


def test_a_reset_archives_the_session_and_keeps_all_else_whichever_way_it_is_asked_for(stage: Stage) -> None:
    stage.start_operator()
    stage.apply(spec={"schedule": {"interval": "24h", "debounce": {"idle": "60s", "max": "60s"}}})
    stage.wait_for_target()
    stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] == 0, "all machines prove: no more events")
    stage.annotate(message=FAR_WAKE)
    stage.wait_for(lambda: len(stage.status().get("pendingWakes", [])) == 1, "the wake is pending")
    wakes, runs = stage.status()["pendingWakes"], len(stage.runs())
    machines = stage.rows("SELECT label, provider_id FROM instances ORDER BY id")

    stage.annotate(reset_requested_at="1")
    stage.wait_for(lambda: stage.status().get("lastHandledReset") == "1", "the reset is served")
    first = stage.status()["session"]
    request_and_wait(stage, "after the first reset")
    patch(stage, '{"spec":{"context":{"session":"fresh"}}}')
    stage.wait_for(lambda: stage.status().get("lastHandledSession") == "fresh", "the session's name is served")
    second = stage.status()["session"]
    request_and_wait(stage, "after the second reset")

    assert called(stage)[runs:] == [["Request"], ["Request"]]  # no reset has started a run
    assert [run["run_id"] for run in stage.runs()] == list(range(1, runs + 3))
    assert (first["messages"], second["messages"]) == (0, 0)
    assert first["id"] < second["id"]
    archived = stage.rows("SELECT * FROM messages WHERE session_id < %s", first["id"])
    assert {m["left_prompt_because"] for m in archived} <= {"reset", "quiet"}
    assert "reset" in {m["left_prompt_because"] for m in archived}
    ended = stage.rows("SELECT ended_at IS NOT NULL AS ended FROM sessions ORDER BY id")
    assert [session["ended"] for session in ended] == [True, True, False]
    assert not any(times_said(messages, FAR_WAKE) for messages in prompts(stage)[-2:])
    assert stage.status()["pendingWakes"] == wakes
    assert stage.rows("SELECT label, provider_id FROM instances ORDER BY id") == machines
    assert stage.condition("OnTarget")["status"] == "True"
    stage.check_books()


def test_a_run_that_a_reset_interrupts_reaches_nothing_of_the_new_session_and_its_words_are_heard_there(
    stage: Stage,
) -> None:
    stage.start_operator()
    apply_idle(stage)
    hold_model(stage)
    stage.annotate(message="prefer the EU")
    wait_until_held(stage, runs=2)

    stage.annotate(reset_requested_at="now")
    wait_until_held(stage, runs=3)
    release_model(stage)
    stage.wait_for_runs(3)
    request_and_wait(stage, "afterwards")

    assert called(stage) == [["Schedule"], ["Feedback"], ["Feedback"], ["Request"]]
    assert [run["state"] for run in stage.runs()] == ["finished", "interrupted", "finished", "finished"]
    old, new = (session["id"] for session in stage.rows("SELECT id FROM sessions ORDER BY id"))
    assert [run["session_id"] for run in stage.runs()] == [old, old, new, new]
    assert stage.rows("SELECT * FROM messages WHERE session_id = %s AND run_id <= 2", new) == []
    assert [times_said(messages, "prefer the EU") for messages in prompts(stage)[-4:]] == [1] * 4
    stage.check_books()


def test_a_launch_that_has_begun_when_the_reset_comes_is_recorded_and_not_repeated(stage: Stage) -> None:
    stage.start_operator()
    stage.market.put("faults", {"create": [{"kind": "slow", "seconds": 12, "times": 1}]})
    stage.apply(spec={"target": {"proofsPerHour": 50}, "schedule": IDLE["schedule"]})
    begun = "SELECT * FROM actions WHERE kind = 'launch' AND state = 'intended'"
    stage.wait_for(lambda: stage.rows(begun), "the launch has begun")

    stage.annotate(reset_requested_at="now")
    stage.wait_for(lambda: stage.status().get("lastHandledReset") == "now", "the reset is served")
    stage.wait_for_target()
    request_and_wait(stage, "afterwards")

    (launch,) = stage.rows("SELECT * FROM actions WHERE kind = 'launch'")
    assert (launch["state"], launch["run_id"]) == ("done", 1)
    _, new = stage.rows("SELECT * FROM sessions ORDER BY id")
    assert launch["settled_at"] < new["started_at"]  # the reset waited for it: nobody had to find it by its label
    assert stage.runs()[0]["state"] == "interrupted"
    assert stage.market.get("state")["created"] == 1
    stage.check_books()
