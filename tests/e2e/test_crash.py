"""Whatever is lost (a process, a status, a resource, a database), run numbers rise and every machine is known."""

from typing import Any
from urllib.parse import urlsplit

from fleetagent.dev.postgres import EmbeddedPostgres
from support.asking import BY_HAND
from support.stage import NAME, Stage


def numbers(stage: Stage) -> list[int]:
    return [r["run_id"] for r in stage.runs()]


def request(stage: Stage, value: str) -> int:
    """Ask for a run; its number when it has ended."""
    stage.annotate(requested_at=value)
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == value, f"request {value} is served", 90)
    served: int = stage.status()["lastRunID"]
    return served


def one_machine_for_each_intent(stage: Stage) -> None:
    """Creates that the market made are intents of the ledger, and none was made twice."""
    stage.wait_for_books()
    labels = [m["label"] for m in stage.market.get("state")["machines"]]
    intents = stage.rows("SELECT label FROM actions WHERE kind = 'launch' AND state <> 'refused'")
    assert sorted(labels) == sorted(i["label"] for i in intents if i["label"] in labels)


def test_a_process_killed_while_the_model_thinks_leaves_an_interrupted_run_and_no_effect(stage: Stage) -> None:
    stage.model.put("hold")
    stage.start_operator()
    stage.apply()
    stage.wait_for(lambda: stage.model.get("state")["held"] == 1, "the model thinks")

    stage.kill_operator()
    stage.model.delete("hold")
    stage.start_operator()
    stage.wait_for_target()

    first, second, *_ = stage.runs()
    assert (first["run_id"], first["state"], first["outcome"]) == (1, "interrupted", "Interrupted")
    assert (second["run_id"], second["outcome"], second["triggers"]) == (2, "Acted", ["Schedule"])
    assert {a["run_id"] for a in stage.rows("SELECT * FROM actions")} == {2}
    one_machine_for_each_intent(stage)


def test_a_process_killed_in_the_middle_of_a_create_makes_it_neither_twice_nor_forgets_it(stage: Stage) -> None:
    created_then_silence = {"kind": "slow", "seconds": 60, "times": 1, "skip": 1}
    stage.market.put("faults", {"create": created_then_silence})
    stage.start_operator(settling_seconds="3")
    stage.apply()
    stage.wait_for(lambda: stage.market.get("state")["created"] == 2, "the market has made the second machine")
    stage.kill_operator()
    assert stage.rows("SELECT state FROM actions WHERE kind = 'launch' ORDER BY id DESC")[0]["state"] == "intended"

    nothing_then_silence = {"kind": "timeout", "seconds": 60, "times": 1}
    stage.market.put("faults", {"create": nothing_then_silence})
    stage.start_operator(settling_seconds="3")
    stage.wait_for(lambda: _states(stage)[:2] == ["done", "done"], "the machine is found by its label")
    stage.apply(spec={"target": {"proofsPerHour": 500}})
    stage.wait_for(lambda: not stage.market.get("faults").get("create"), "another create is under way")
    assert "intended" in _states(stage)
    stage.kill_operator()

    stage.start_operator(settling_seconds="3")
    stage.wait_for(lambda: "failed" in _states(stage), "the intent that never appeared is given up")
    stage.wait_for_target()
    one_machine_for_each_intent(stage)
    assert _states(stage).count("failed") == 1
    assert numbers(stage) == list(range(1, len(numbers(stage)) + 1))


def _states(stage: Stage) -> list[str]:
    query = "SELECT state FROM actions WHERE kind = 'launch' AND state <> 'refused' ORDER BY id"
    return [row["state"] for row in stage.rows(query)]


def test_run_numbers_and_machines_outlive_a_wiped_status_and_a_resource_made_anew(stage: Stage) -> None:
    stage.start_operator()
    retained: dict[str, Any] = {"schedule": BY_HAND, "deletionPolicy": "Retain"}
    stage.apply(spec=retained)
    stage.wait_for_target()
    before = request(stage, "before")
    machines = {m["label"] for m in stage.market.live()}

    wipe = ("patch", "fleetagent", NAME, "--subresource=status", "--type=json")
    stage.cluster.kubectl("-n", stage.namespace, *wipe, "-p", '[{"op": "remove", "path": "/status"}]')
    wiped = request(stage, "after the wipe")
    assert stage.condition("OnTarget")["status"] == "True", "the whole status is back"

    stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--timeout=60s")
    stage.wait_for(lambda: "go on and bill" in "".join(stage.events("MachinesRetained")), "people are told")
    stage.apply(spec=retained)
    stage.wait_for_target()
    anew = request(stage, "made anew")

    assert before < wiped < anew
    assert numbers(stage) == list(range(1, anew + 1))
    assert [s["epoch"] for s in stage.rows("SELECT * FROM sessions ORDER BY epoch")] == [1, 2]
    assert {m["label"] for m in stage.market.live()} == machines
    one_machine_for_each_intent(stage)


def test_a_database_restored_from_before_the_launches_adopts_the_machines_and_goes_on_counting(
    stage: Stage, postgres_server: EmbeddedPostgres
) -> None:
    name = urlsplit(stage.database_url).path.strip("/")
    stage.start_operator()
    stage.apply(spec={"mode": "DryRun", "schedule": BY_HAND})
    stage.wait_for_runs(1)
    stage.kill_operator()
    postgres_server.create_database(f"{name}_old", template=name)

    stage.start_operator()
    stage.apply(spec={"schedule": BY_HAND})
    stage.wait_for_target()
    before = request(stage, "before the loss")
    machines = {m["label"] for m in stage.market.live()}
    stage.kill_operator()
    postgres_server.drop_database(name)
    postgres_server.create_database(name, template=f"{name}_old")
    postgres_server.drop_database(f"{name}_old")

    stage.start_operator()
    after = request(stage, "after the loss")
    stage.wait_for_target()

    assert after > before
    assert numbers(stage)[-1] == stage.status()["lastRunID"]
    assert {m["label"] for m in stage.market.live()} == machines
    adopted = stage.rows("SELECT * FROM instances")
    assert {i["label"] for i in adopted} == machines
    assert all(i["worker_token_hash"] for i in adopted), "their workers are still known by their secrets"
    assert stage.market.get("state")["calls"]["destroy"] == 0
    stage.check_books()
