"""Writes of the status, counted by the API server: none while nothing happens, at most two for a run."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.audit import asked_by
from support.cluster import a_control_plane
from support.stage import ACCOUNT, Stage, a_stage

NAMESPACE = "audited"
MANY_LOOKS_S = 10.0
"""Twenty beats, and as many looks at the fleet, as tests go."""
REST_S = 3.0


@pytest.fixture
def audited(database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage whose API server writes down what it is asked."""
    with a_control_plane(audit=True) as cluster:
        cluster.kubectl("create", "namespace", NAMESPACE)
        with a_stage(cluster, NAMESPACE, database_url, tmp_path) as stage:
            yield stage


def writes(stage: Stage) -> int:
    asked = asked_by(stage.cluster, ACCOUNT, stage.home)
    return sum((each.verb, each.resource) == ("patch", "fleetagents.fleetagent.dev/status") for each in asked)


def wait_for_rest(stage: Stage) -> int:
    """Until no run goes on or is called for, and nothing was written for some seconds; how much was, so far."""
    known, since = writes(stage), time.monotonic()
    busy = (
        "SELECT (SELECT count(*) FROM runs WHERE state = 'running')"
        " + (SELECT count(*) FROM triggers WHERE state = 'pending') AS things"
    )

    def rests() -> bool:
        nonlocal known, since
        if (now := writes(stage)) != known or stage.rows(busy)[0]["things"]:
            known, since = now, time.monotonic()
        return time.monotonic() - since > REST_S

    stage.wait_for(rests, "nothing is written any more", within_s=120)
    return known


def is_told_of(stage: Stage, request: str) -> bool:
    return stage.status().get("lastHandledRequest") == request


def leases(stage: Stage) -> int:
    token: int = stage.rows("SELECT lease_token FROM agents")[0]["lease_token"]
    return token


def test_nothing_is_written_while_nothing_happens_and_little_for_a_run(audited: Stage) -> None:
    audited.start_operator()
    audited.apply(spec={"schedule": {"interval": "24h"}})
    audited.wait_for_target()
    audited.wait_for(lambda: audited.status()["fleet"]["onTheWay"] == 0, "all machines prove", within_s=120)
    before = wait_for_rest(audited)

    time.sleep(MANY_LOOKS_S)
    assert writes(audited) == before, "the fleet proves, costs money, and is looked at"

    runs = 3
    for number in range(runs):
        audited.annotate(requested_at=str(number))
        audited.wait_for(partial(is_told_of, audited, str(number)), "the run is told of")
    assert 0 < wait_for_rest(audited) - before <= 2 * runs

    passes = leases(audited)
    audited.restart_operator()
    audited.wait_for(lambda: leases(audited) > passes + 1, "the new process has gone through it twice")
    before = wait_for_rest(audited)
    time.sleep(MANY_LOOKS_S)
    assert writes(audited) == before, "nor after a start, which brings the bill up to date"
