"""A rolling update under load: every replica is replaced, and each agent goes on as if nothing had happened."""

import itertools

import pytest

from support.replicas import start_replica, start_two, with_peering
from support.stage import AS_INSTALLED, Stage
from support.steering import request_quickly

AGENTS = [f"agent-{n}" for n in range(6)]
INTERVAL_S = 10
GRACE_S = 30
LATENESS = """
SELECT t.value, max(r.started_at - t.value::timestamptz) AS late FROM triggers t
JOIN runs r ON r.agent_id = t.agent_id AND r.run_id = t.claimed_by_run
WHERE t.kind = 'Schedule' AND r.state = 'finished' GROUP BY t.value
"""


@pytest.fixture
def installation(stage: Stage) -> Stage:
    return with_peering(stage)


def request_all(stage: Stage, value: str) -> None:
    for name in AGENTS:
        request_quickly(stage, value, name)


def all_have_served(stage: Stage, value: str) -> bool:
    rows = stage.rows("SELECT name FROM agents WHERE handled->>'request' = %s", value)
    return len(rows) == len(AGENTS)


def test_while_all_replicas_are_replaced_no_run_is_an_interval_late_and_nothing_is_lost(installation: Stage) -> None:
    stage = installation
    old = start_two(stage, **AS_INSTALLED)
    for name in AGENTS:
        stage.apply(
            metadata={"name": name},
            spec={"target": {"proofsPerHour": 0}, "schedule": {"interval": f"{INTERVAL_S}s", "skipUnchanged": False}},
        )
    stage.wait_for_runs(len(AGENTS))

    for number, replica in enumerate(old):
        start_replica(stage, **AS_INSTALLED)
        request_all(stage, f"update {number}")
        replica.end(within_s=GRACE_S)
        stage.wait_for(lambda: all_have_served(stage, f"update {number}"), "all requests are served")  # noqa: B023
    stage.wait_for_runs(len(stage.runs()) + len(AGENTS))

    for _, rows in itertools.groupby(stage.runs(), key=lambda r: r["agent_id"]):
        runs = list(rows)
        assert [r["run_id"] for r in runs] == list(range(1, len(runs) + 1))
        for before, after in itertools.pairwise(runs):
            assert before["finished_at"] <= after["started_at"]
    late = [row["late"].total_seconds() for row in stage.rows(LATENESS)]
    assert max(late) < INTERVAL_S
    assert stage.rows("SELECT * FROM triggers WHERE state = 'dropped'") == []
    assert stage.rows("SELECT * FROM alerts") == []
