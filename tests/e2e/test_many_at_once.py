"""Many agents made in one moment, by a process with few connections and short leases: each has its run, at once."""

import yaml

from support.stage import NAME, Stage
from support.steering import IDLE, hold_model, release_model

MANY = 100
LEASE_SECONDS = 5
RUNS = "SELECT agent_id, run_id, state, started_at FROM runs"


def test_a_hundred_agents_that_are_made_at_once_have_one_run_each_and_lose_no_lease(stage: Stage) -> None:
    stage.start_operator(database_pool="2", lease_seconds=str(LEASE_SECONDS))
    hold_model(stage)  # so that all runs go on at the same time
    made = [stage.manifest(metadata={"name": f"{NAME}-{number:03}"}, spec=IDLE) for number in range(MANY)]
    stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(made))

    stage.wait_for(lambda: len(stage.rows(RUNS)) == MANY, "each agent has begun its run", 90)
    longest = "SELECT max(extract(epoch FROM clock_timestamp() - started_at)) AS s FROM runs WHERE state = 'running'"
    stage.wait_for(lambda: stage.rows(longest)[0]["s"] > 3 * LEASE_SECONDS, "runs go on for longer than leases do", 90)
    release_model(stage)
    finished = f"{RUNS} WHERE state = 'finished'"
    stage.wait_for(lambda: len(stage.rows(finished)) == MANY, "each agent has had its run", 90)

    assert [(run["run_id"], run["state"]) for run in stage.rows(RUNS)] == [(1, "finished")] * MANY
    assert "another process owns this agent" not in stage.log()
