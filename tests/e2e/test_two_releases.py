"""Two Helm releases with one Postgres, market and model: each serves its own namespaces, never the other's."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetagent.dev.controlplane import ControlPlane
from support.released import a_release
from support.servers import a_market, a_model
from support.stage import BEAT_SECONDS, LEASE_SECONDS, Stage
from support.steering import request_and_wait


@pytest.fixture
def stages(control_plane: ControlPlane, database_url: str, tmp_path: Path) -> Iterator[tuple[Stage, Stage]]:
    """A stage for each of two releases, which have one name."""
    with (
        a_market() as market,
        a_model() as model,
        a_release(control_plane, database_url, market, model, tmp_path / "first") as first,
        a_release(control_plane, database_url, market, model, tmp_path / "second") as second,
    ):
        yield first, second


def runs_of(stage: Stage) -> list[int]:
    """The numbers of this namespace's runs; the tables hold those of both."""
    query = "SELECT run_id FROM runs JOIN agents ON agents.id = agent_id WHERE namespace = %s ORDER BY run_id"
    return [row["run_id"] for row in stage.rows(query, stage.namespace)]


def leases_taken(stage: Stage) -> int:
    """How often any process has taken this namespace's agent."""
    (row,) = stage.rows("SELECT lease_token FROM agents WHERE namespace = %s", stage.namespace)
    return int(row["lease_token"])


def test_each_release_serves_its_own_namespace_and_never_the_others(stages: tuple[Stage, Stage]) -> None:
    first, second = stages
    for stage in stages:
        stage.start_operator()
        stage.apply(spec={"target": {"proofsPerHour": 50}})
    for stage in stages:
        stage.wait_for_target()

    assert first.rows("SELECT DISTINCT cluster, name FROM agents") == [{"cluster": "shared", "name": "porep"}]
    assert len(first.rows("SELECT DISTINCT split_part(label, '/', 2) FROM instances")) == 2
    first.wait_for_books()

    second.kill_operator()
    taken, served = leases_taken(second), runs_of(second)
    second.annotate(requested_at="while its operator is down")
    # The other one must have had every chance: the lease has ended, and it has looked at its own agent many times.
    until = time.monotonic() + LEASE_SECONDS + 4 * BEAT_SECONDS
    number = 0
    while time.monotonic() < until:
        request_and_wait(first, f"meanwhile {number}")
        number += 1
    assert (leases_taken(second), runs_of(second)) == (taken, served)
    assert second.namespace not in first.log()

    second.start_operator()
    request_and_wait(second, "it is back")
    assert leases_taken(second) > taken
    assert first.namespace not in second.log()
    first.wait_for_books()


def test_a_release_that_is_told_to_watch_the_others_namespace_is_refused_by_its_own_rights(
    stages: tuple[Stage, Stage],
) -> None:
    first, second = stages

    process = first.start_operator(namespaces=second.namespace)

    assert process.wait(60) == 1
    assert "forbids us to list FleetAgents (403)" in first.log()
