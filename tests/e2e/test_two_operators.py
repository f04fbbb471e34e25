"""Two operator processes for one namespace and one database: one run at a time, and who lost the lease does nothing."""

import itertools
import signal
import subprocess

from support.ports import free_port
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


def start_two(stage: Stage) -> None:
    stage.start_operator()
    stage.start_operator(worker_listen=f"127.0.0.1:{free_port()}")


def runner_of(stage: Stage, run_id: int) -> subprocess.Popen[bytes]:
    """The process that started this run: its log says so."""
    logs = [path.read_text() for path in sorted(stage.folder.glob("operator-*.log"))]
    (number,) = (n for n, log in enumerate(logs) if f" run {run_id}: " in log)
    return stage.operators[number]


def test_two_operators_never_run_one_agent_at_the_same_time_and_serve_each_call_once(stage: Stage) -> None:
    start_two(stage)
    apply_idle(stage, schedule={"wakes": {"min": "1s"}})

    for number in range(5):
        request_and_wait(stage, f"request {number}")
    patch(stage, '{"spec":{"instructions":"be frugal"}}')
    stage.annotate(message="[sim] wake in 0")
    stage.wait_for(lambda: any("Wake" in triggers for triggers in called(stage)), "the wake has fired")
    stage.annotate(reset_requested_at="r", requested_at="request 5")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "request 5", "the new session has begun")
    stage.annotate(requested_at="request 6")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "request 6", "the last request is served")

    runs = stage.runs()
    assert [run["run_id"] for run in runs] == list(range(1, len(runs) + 1))
    for before, after in itertools.pairwise(runs):
        assert before["finished_at"] <= after["started_at"]
    kinds = [kind for run in runs if run["state"] == "finished" for kind in run["triggers"]]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "Schedule": 1,
        "Request": 7,
        "SpecChange": 1,
        "Feedback": 1,
        "Wake": 1,
    }
    assert len(stage.rows("SELECT * FROM sessions")) == 2


def test_a_process_that_was_frozen_for_longer_than_its_lease_does_nothing_more_in_its_old_run(stage: Stage) -> None:
    start_two(stage)
    hold_model(stage)
    stage.apply(spec={"target": {"proofsPerHour": 50}, "schedule": {"interval": "24h"}})
    wait_until_held(stage, runs=1)
    frozen = runner_of(stage, 1)
    frozen.send_signal(signal.SIGSTOP)
    stage.wait_for(lambda: len(stage.runs()) == 2, "the other process takes over")

    release_model(stage)
    stage.wait_for_target()
    frozen.send_signal(signal.SIGCONT)
    stage.wait_for(lambda: "another process owns this agent now" in stage.log(), "the frozen one finds out")
    request_and_wait(stage, "afterwards")

    first, second, *_ = stage.runs()
    assert (first["state"], second["outcome"]) == ("interrupted", "Acted")
    assert stage.rows("SELECT * FROM actions WHERE run_id = 1") == []
    assert stage.market.get("state")["created"] == 1
    stage.check_books()
