"""Requests, changes of the spec, and time: each calls for exactly one run, and nothing else calls for any."""

from support.stage import Stage
from support.steering import (
    apply_idle,
    called,
    hold_model,
    patch,
    release_model,
    request_and_wait,
    wait_until_held,
)


def test_each_new_value_of_a_request_is_one_run_whoever_is_up_at_the_time_and_other_changes_are_none(
    stage: Stage,
) -> None:
    stage.start_operator()
    apply_idle(stage)

    request_and_wait(stage, "X")
    stage.annotate(requested_at="X")
    patch(stage, '{"metadata":{"annotations":{"example.com/note":"n"},"labels":{"a":"b"}}}')
    patch(stage, '{"status":{"openAlerts":7}}', "--subresource=status")
    stage.wait_for(lambda: stage.status()["openAlerts"] == 0, "the status that somebody wrote is put right")
    request_and_wait(stage, "Y")

    stage.kill_operator()
    stage.annotate(requested_at="while it is down")
    stage.start_operator()
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "while it is down", "it is served after start")
    request_and_wait(stage, "Z")

    assert called(stage) == [["Schedule"], ["Request"], ["Request"], ["Request"], ["Request"]]
    assert [run["run_id"] for run in stage.runs()] == [1, 2, 3, 4, 5]
    assert stage.status()["lastRunID"] == 5


def test_what_the_status_knows_as_served_is_not_served_again_by_a_database_from_before(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage, context={"session": "first"})
    request_and_wait(stage, "X")
    stage.kill_operator()
    stage.rows("""UPDATE agents SET handled = '{"session": "older"}', last_run_id = 0 RETURNING id""")
    stage.rows("DELETE FROM runs WHERE run_id = 2 RETURNING run_id")

    stage.start_operator()
    remembered = "SELECT * FROM agents WHERE handled->>'request' = 'X' AND handled->>'session' = 'first'"
    stage.wait_for(lambda: stage.rows(remembered), "the row has learnt what was served")
    request_and_wait(stage, "Y")

    assert [(run["run_id"], run["triggers"]) for run in stage.runs()] == [(1, ["Schedule"]), (3, ["Request"])]
    assert len(stage.rows("SELECT * FROM sessions")) == 1


def test_of_thirty_values_during_a_run_the_last_is_served_by_one_more_run(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)
    hold_model(stage)
    stage.annotate(requested_at="first")
    wait_until_held(stage, runs=2)

    for number in range(30):
        stage.annotate(requested_at=f"value {number}")
    release_model(stage)
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "value 29", "the last value is served")
    request_and_wait(stage, "afterwards")

    assert called(stage) == [["Schedule"], ["Request"], ["Request"], ["Request"]]
    assert [run["run_id"] for run in stage.runs()] == [1, 2, 3, 4]


def test_a_changed_spec_is_one_run_also_when_it_changes_during_a_run_or_while_nobody_looks(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)

    patch(stage, '{"spec":{"instructions":"be frugal"}}')
    stage.wait_for_runs(2)
    hold_model(stage)
    stage.annotate(requested_at="r")
    wait_until_held(stage, runs=3)
    patch(stage, '{"spec":{"instructions":"be generous"}}')
    patch(stage, '{"spec":{"instructions":"be wise"}}')
    release_model(stage)
    stage.wait_for_runs(4)
    stage.kill_operator()
    patch(stage, '{"spec":{"instructions":"be quick"}}')
    stage.start_operator()
    stage.wait_for_runs(5)
    request_and_wait(stage, "afterwards")

    assert called(stage) == [["Schedule"], ["SpecChange"], ["Request"], ["SpecChange"], ["SpecChange"], ["Request"]]
    assert stage.status()["observedGeneration"] == 5


def test_after_a_downtime_of_several_intervals_one_run_follows_and_the_beat_is_kept(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)
    (before,) = stage.rows("SELECT next_scheduled_at AS at FROM agents")
    stage.kill_operator()
    stage.rows("UPDATE agents SET next_scheduled_at = next_scheduled_at - interval '5 hours' RETURNING id")

    stage.start_operator()
    stage.wait_for_runs(2)
    request_and_wait(stage, "afterwards")

    assert called(stage) == [["Schedule"], ["Schedule"], ["Request"]]
    assert stage.rows("SELECT next_scheduled_at AS at FROM agents") == [before]


def test_a_scheduled_run_that_is_killed_is_made_up_for_at_once(stage: Stage) -> None:
    stage.start_operator()
    hold_model(stage)
    stage.apply(spec={"target": {"proofsPerHour": 0}, "schedule": {"interval": "24h"}})
    wait_until_held(stage, runs=1)

    stage.kill_operator()
    release_model(stage)
    stage.start_operator()
    stage.wait_for_runs(2)
    request_and_wait(stage, "afterwards")

    assert called(stage) == [["Schedule"], ["Schedule"], ["Request"]]
    assert [run["state"] for run in stage.runs()] == ["interrupted", "finished", "finished"]
