"""The past goes by itself while the agent has nothing to do; what it still needs stays."""

from support.stage import Stage
from support.steering import request_and_wait

THREE_DAYS_OLD = """
    WITH r AS (UPDATE runs SET started_at = started_at - interval '3 days'),
    m AS (UPDATE messages SET at = at - interval '3 days')
    UPDATE triggers SET at = at - interval '3 days', processed_at = processed_at - interval '3 days' RETURNING id
"""

UNTOLD = "SELECT * FROM triggers WHERE state <> 'processed'"


def test_old_runs_go_and_those_of_live_machines_and_the_newest_stay(stage: Stage) -> None:
    stage.start_operator()
    retention = {"runs": "2d", "messages": "2d"}
    stage.apply(spec={"target": {"proofsPerHour": 50}, "schedule": {"interval": "24h"}, "retention": retention})
    stage.wait_for_target()
    stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] == 0, "the machine proves")
    stage.wait_for(lambda: not stage.rows(UNTOLD), "the agent has heard of it")
    for name in ("one", "two", "three"):
        request_and_wait(stage, name)
    launching = {row["run_id"] for row in stage.rows("SELECT run_id FROM actions WHERE kind = 'launch'")}
    newest = stage.runs()[-1]["run_id"]
    stage.kill_operator()
    stage.rows(THREE_DAYS_OLD)

    stage.start_operator()

    stage.wait_for(lambda: {r["run_id"] for r in stage.runs()} == launching | {newest}, "the others are pruned")
    left = stage.rows("SELECT DISTINCT run_id FROM messages WHERE left_prompt_because IS NOT NULL")
    assert left == []
    request_and_wait(stage, "and on")
    assert stage.runs()[-1]["run_id"] == newest + 1
    assert "pruned" in stage.log()
    stage.wait_for_books()
