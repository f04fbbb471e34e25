"""Replicas take turns: who ends hands over at once, who is paused lets go, and nothing that was called for is lost."""

import signal

import pytest

from fleetagent.dev.rbac import peering_objects
from support.replicas import (
    PEERING,
    apply,
    owners,
    peers,
    pretend,
    pretend_gone,
    start_replica,
    start_two,
    with_peering,
)
from support.stage import Stage
from support.steering import apply_idle, called, hold_model, release_model, request_and_wait, wait_until_held

HANDED_OVER_WITHIN_S = 20
ENDED_WITHIN_S = 15
SEEN_WITHIN_S = 10


@pytest.fixture
def installation(stage: Stage) -> Stage:
    return with_peering(stage)


def test_of_two_replicas_the_elder_works_and_hands_over_within_seconds_when_told_to_end(installation: Stage) -> None:
    stage = installation
    elder, younger = start_two(stage, lease_seconds="120")  # none that runs out helps
    apply_idle(stage)
    assert elder.active
    assert not younger.active
    hold_model(stage)
    stage.annotate(requested_at="long")
    wait_until_held(stage, runs=2)
    assert owners(stage) == {elder.name}

    elder.send(signal.SIGTERM)
    stage.wait_for(lambda: owners(stage) == {younger.name}, "the other one has it", HANDED_OVER_WITHIN_S)
    release_model(stage)
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "long", "it is served")
    elder.process.wait(ENDED_WITHIN_S)

    assert set(peers(stage)) == {younger.name}
    stage.wait_for(lambda: younger.active, "it says that it works", SEEN_WITHIN_S)
    assert [(r["run_id"], r["state"], r["triggers"]) for r in stage.runs()[1:]] == [
        (2, "interrupted", ["Request"]),
        (3, "finished", ["Request"]),
    ]


def test_a_stray_process_that_goes_first_stops_ours_at_once_and_its_end_lets_them_go_on(installation: Stage) -> None:
    stage = installation
    elder, younger = start_two(stage, beat_seconds="60")  # whoever goes on must not wait for a beat
    apply_idle(stage)
    hold_model(stage)
    stage.annotate(requested_at="long")
    wait_until_held(stage, runs=2)

    pretend(stage, "somebody@laptop")
    stage.wait_for(lambda: stage.runs()[-1]["state"] == "interrupted", "the run is given back", SEEN_WITHIN_S)
    stage.wait_for(lambda: not owners(stage), "nobody owns the agent", SEEN_WITHIN_S)
    stage.wait_for(lambda: not elder.active and not younger.active, "both stand by", SEEN_WITHIN_S)
    release_model(stage)
    assert len(stage.runs()) == 2

    pretend_gone(stage, "somebody@laptop")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "long", "served", SEEN_WITHIN_S)
    stage.wait_for(lambda: elder.active, "the elder works again", SEEN_WITHIN_S)
    assert not younger.active
    request_and_wait(stage, "afterwards")
    assert called(stage)[-2:] == [["Request"], ["Request"]]
    assert stage.rows("SELECT * FROM triggers WHERE state NOT IN ('processed')") == []


def test_a_stray_process_that_dies_without_a_word_is_passed_over_when_its_time_is_up(installation: Stage) -> None:
    stage = installation
    replica = start_replica(stage)
    apply_idle(stage)
    pretend(stage, "somebody@laptop", lifetime_s=8)
    stage.wait_for(lambda: not replica.active, "it stands by", SEEN_WITHIN_S)

    stage.annotate(requested_at="now")

    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "now", "served", 8 + SEEN_WITHIN_S)
    assert set(peers(stage)) == {replica.name}


def test_a_peering_that_somebody_deletes_and_makes_again_keeps_its_promise(installation: Stage) -> None:
    stage = installation
    elder, younger = start_two(stage)
    apply_idle(stage)

    stage.cluster.kubectl("-n", stage.namespace, "delete", "kopfpeering", PEERING)
    request_and_wait(stage, "without it")
    apply(stage, peering_objects(PEERING, (stage.namespace,)))
    stage.wait_for(lambda: set(peers(stage)) == {elder.name, younger.name}, "both give a sign again", SEEN_WITHIN_S)
    stage.wait_for(lambda: elder.active and not younger.active, "the elder works", SEEN_WITHIN_S)
    elder.send(signal.SIGTERM)

    request_and_wait(stage, "afterwards")
    assert set(peers(stage)) == {younger.name}
    assert [r["run_id"] for r in stage.runs()] == [1, 2, 3]
