"""An API server that goes and comes back costs no replica its life, and no agent its next run."""

import itertools
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import a_control_plane
from support.replicas import start_two, with_peering
from support.stage import Stage, a_stage
from support.steering import apply_idle, request_and_wait

AWAY_S = 20
"""Longer than the life of a sign: each believes that the other one has died."""


@pytest.fixture
def own(database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on a control plane that nobody else needs."""
    with a_control_plane() as cluster:
        namespace = f"test-{secrets.token_hex(5)}"
        cluster.kubectl("create", "namespace", namespace)
        with a_stage(cluster, namespace, database_url, tmp_path) as stage:
            yield stage


def test_both_replicas_outlive_a_restart_of_the_api_server_and_one_of_them_works(own: Stage) -> None:
    stage = own
    elder, younger = start_two(with_peering(stage), lease_seconds="15")
    apply_idle(stage)

    with stage.cluster.without_apiserver():
        time.sleep(AWAY_S)
    request_and_wait(stage, "afterwards")

    assert [r.process.poll() for r in (elder, younger)] == [None, None]
    stage.wait_for(lambda: elder.active and not younger.active, "they take turns again")
    request_and_wait(stage, "later")
    runs = stage.runs()
    assert [r["run_id"] for r in runs] == list(range(1, len(runs) + 1))
    for before, after in itertools.pairwise(runs):
        assert before["finished_at"] <= after["started_at"]
