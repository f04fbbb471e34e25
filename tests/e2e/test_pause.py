"""Who holds an agent back is named, with the reason and the end; and a pause ends by itself, with a run."""

from datetime import UTC, datetime, timedelta

from support.stage import Stage
from support.steering import apply_idle, called, patch, request_and_wait


def soon(seconds: float) -> str:
    """A moment so many seconds from now, as people write it."""
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"  # noqa: TID251 - the operator's clock


def test_a_pause_ends_by_itself_with_one_run_and_nobody_touches_the_resource(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage, schedule={"interval": "10m"})
    until = soon(30)
    patch(stage, f'{{"spec":{{"pause":{{"until":"{until}","reason":"market too dear","directions":["Up","Down"]}}}}}}')
    stage.wait_for_runs(2)
    stage.wait_for(lambda: stage.condition("Suspended").get("reason") == "Paused", "it is paused")
    said, status = stage.condition("Suspended"), stage.status()
    assert said["message"] == f"spec.pause: Up and Down paused until {until[:10]} {until[11:16]} UTC: market too dear"
    assert status["observedGeneration"] == said["observedGeneration"] == 2
    ends_at = datetime.fromisoformat(until)
    next_at = datetime.fromisoformat(status["nextRunAt"])
    assert timedelta(0) <= next_at - ends_at <= timedelta(seconds=30)
    version = stage.resource()["metadata"]["generation"]

    stage.wait_for(lambda: stage.condition("Suspended").get("status") == "False", "the pause is over")
    stage.wait_for_runs(3)

    assert called(stage) == [["Schedule"], ["SpecChange"], ["Schedule"]]
    assert stage.runs()[2]["started_at"] >= ends_at
    assert stage.runs()[2]["outcome"] != "Skipped"
    assert stage.resource()["metadata"]["generation"] == version


def test_a_changed_spec_is_observed_while_all_is_stopped_and_everybody_who_holds_back_is_named(stage: Stage) -> None:
    stage.start_operator()
    apply_idle(stage)
    stage.cluster.kubectl("-n", stage.home, "create", "configmap", "fleetagent-stop", "--from-literal=reason=audit")
    stage.wait_for(lambda: stage.condition("Suspended").get("reason") == "InstallationStopped", "people see it", 30)
    assert f"ConfigMap {stage.home}/fleetagent-stop exists: audit" in stage.condition("Suspended")["message"]

    patch(stage, '{"spec":{"pause":{"until":"2099-01-01T00:00:00Z","reason":"dear"}}}')
    stage.wait_for(lambda: stage.status()["observedGeneration"] == 2, "the pause is observed")
    patch(stage, '{"spec":{"mode":"Suspended"}}')
    stage.wait_for(lambda: stage.status()["observedGeneration"] == 3, "the mode is observed")

    said = stage.condition("Suspended")
    assert said["reason"] == "ModeSuspended"
    assert said["observedGeneration"] == 3
    for who in ("spec.mode is Suspended", "fleetagent-stop exists: audit", "spec.pause: Up paused until 2099-01-01"):
        assert who in said["message"]

    stage.cluster.kubectl("-n", stage.home, "delete", "configmap", "fleetagent-stop")
    patch(stage, '{"spec":{"mode":"Act","pause":null}}')
    stage.wait_for(lambda: stage.condition("Suspended").get("status") == "False", "nobody holds it back", 30)
    request_and_wait(stage, "afterwards")
    assert stage.condition("Ready")["status"] == "True"
