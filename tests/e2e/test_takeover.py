"""A replica that dies or freezes without a word is passed over, and what it still does when it wakes has no effect."""

import signal
import time

import pytest

from support.replicas import Replica, owners, start_replica, start_two, with_peering
from support.stage import AS_INSTALLED, Stage
from support.steering import apply_idle, hold_model, release_model, request_and_wait, wait_until_held

PROMISED_S = 30


@pytest.fixture
def installation(stage: Stage) -> Stage:
    return with_peering(stage)


def request_from_dead(stage: Stage, dying: Replica, value: str, *, in_the_model: bool, after_s: float) -> float:
    """Ask for a run and kill the one that works so long after it began; how long it takes until it is served."""
    before = len(stage.runs())
    if in_the_model:
        hold_model(stage)
        stage.annotate(requested_at=value)
        wait_until_held(stage, before + 1)
    else:
        stage.annotate(requested_at=value)
    time.sleep(after_s)
    killed_at = time.monotonic()
    dying.end(signal.SIGKILL)
    if in_the_model:
        release_model(stage)
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == value, f"{value} is served", PROMISED_S)
    return time.monotonic() - killed_at


def test_a_killed_replica_is_taken_over_from_within_thirty_seconds_and_no_trigger_is_lost(installation: Stage) -> None:
    stage = installation
    active, standby = start_two(stage, **AS_INSTALLED)
    apply_idle(stage)
    took = []

    for number, (in_the_model, after_s) in enumerate([(True, 0.0), (False, 0.02), (True, 4.0), (False, 0.3)]):
        took.append(request_from_dead(stage, active, f"r{number}", in_the_model=in_the_model, after_s=after_s))
        stage.wait_for(lambda: standby.active, "the other one says that it works")  # noqa: B023 - asked at once
        active, standby = standby, start_replica(stage, **AS_INSTALLED)
        assert not standby.active

    assert max(took) < PROMISED_S
    runs = stage.runs()
    assert [r["run_id"] for r in runs] == list(range(1, len(runs) + 1))
    served = [r["triggers"] for r in runs if r["state"] == "finished"]
    assert served == [["Schedule"], *[["Request"]] * 4]
    assert stage.rows("SELECT * FROM triggers WHERE state <> 'processed'") == []


def test_a_replica_that_wakes_just_before_its_launch_does_not_begin_it(installation: Stage) -> None:
    stage = installation
    elder, younger = start_two(stage)
    hold_model(stage)
    stage.apply(spec={"target": {"proofsPerHour": 50}, "schedule": {"interval": "24h"}})
    wait_until_held(stage, runs=1)
    stage.market.put("faults", {"search": {"kind": "slow", "seconds": 2}})
    release_model(stage)
    wishes = "SELECT * FROM messages WHERE tool_calls::text LIKE '%%launch_instance%%'"
    stage.wait_for(lambda: stage.rows(wishes), "the model wants a launch, whose offer is read once more")

    elder.send(signal.SIGSTOP)
    stage.market.put("faults", {})
    assert stage.market.get("state")["created"] == 0
    stage.wait_for(lambda: owners(stage) == {younger.name}, "the other one takes over", PROMISED_S)
    stage.wait_for_target()
    elder.send(signal.SIGCONT)
    stage.wait_for(lambda: "another process owns this agent now" in elder.log.read_text(), "it finds out")
    request_and_wait(stage, "afterwards")

    assert stage.rows("SELECT * FROM actions WHERE run_id = 1") == []
    assert [r["state"] for r in stage.runs()[:2]] == ["interrupted", "finished"]
    assert stage.market.get("state")["created"] == 1
    stage.wait_for_books()
