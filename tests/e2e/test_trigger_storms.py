"""Requests faster than anybody can serve them, through watches that are late: the last is served, and none twice."""

import signal
import time

from support.line import a_line
from support.stage import Stage
from support.steering import (
    apply_idle,
    called,
    hold_model,
    release_model,
    request_and_wait,
    request_quickly,
    wait_until_held,
)

MANY = 200
MOST_RUNS = MANY // 2
"""A run takes tens of milliseconds, as long as a few values: what matters is that not each of them is one."""


def served(stage: Stage) -> list[str]:
    """The values that runs were made for, in the order in which they were written down."""
    rows = stage.rows("SELECT value FROM triggers WHERE kind = 'Request' AND state = 'processed' ORDER BY id")
    return [row["value"] for row in rows]


def check_numbers(stage: Stage) -> None:
    """Every run has its own number, higher than all before, and came to its end."""
    numbers = [run["run_id"] for run in stage.runs()]
    assert numbers == sorted(set(numbers))
    assert stage.status()["lastRunID"] == numbers[-1]
    assert {run["state"] for run in stage.runs()} <= {"finished", "interrupted"}


def test_of_two_hundred_values_as_fast_as_can_be_the_last_is_served_and_none_twice(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)

    for number in range(MANY):
        request_quickly(stage, f"value {number}")
    last = f"value {MANY - 1}"
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == last, "the last value is served")
    request_and_wait(stage, "afterwards")

    values = served(stage)
    assert values[-2:] == [last, "afterwards"]
    assert len(values) == len(set(values))
    assert called(stage) == [["Schedule"], *[["Request"]] * (len(stage.runs()) - 1)]
    assert len(stage.runs()) <= MOST_RUNS
    check_numbers(stage)


def test_two_values_at_once_during_a_run_are_served_although_the_watch_is_ten_seconds_late(stage: Stage) -> None:
    with a_line(stage) as line:
        line.start_operator(silent_seconds="120")  # else a watch is given up before it has told anything
        apply_idle(stage)
        line.proxy.watch_lag_seconds = 10
        hold_model(stage)
        request_quickly(stage, "first")
        wait_until_held(stage, runs=2)

        request_quickly(stage, "one")
        time.sleep(0.05)
        request_quickly(stage, "two")
        release_model(stage)
        stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "two", "the last value is served", 90)
        line.proxy.watch_lag_seconds = 0
        request_and_wait(stage, "afterwards")

        values = served(stage)
        assert values[0] == "first"
        assert values[-2:] == ["two", "afterwards"]
        assert len(values) == len(set(values))
        check_numbers(stage)


def test_values_that_come_while_the_process_is_frozen_in_a_run_are_not_lost(stage: Stage) -> None:
    process = stage.start_operator()
    apply_idle(stage)
    hold_model(stage)
    request_quickly(stage, "before")
    wait_until_held(stage, runs=2)

    process.send_signal(signal.SIGSTOP)
    for number in range(20):
        request_quickly(stage, f"frozen {number}")
    leases = "SELECT id FROM agents WHERE lease_until < now()"
    stage.wait_for(lambda: stage.rows(leases), "nobody owns the agent any more")
    process.send_signal(signal.SIGCONT)
    release_model(stage)

    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "frozen 19", "the last value is served")
    request_and_wait(stage, "afterwards")
    values = served(stage)
    assert "before" in values
    assert values[-2:] == ["frozen 19", "afterwards"]
    assert len(values) == len(set(values))
    check_numbers(stage)
