"""A definition of the resource that is older or newer than the operator: said in one case, passed over in the other."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fleetagent.dev.apiserver import ApiError
from fleetagent.domain.resource import crd
from support.cluster import eventually
from support.kstatus import kstatus
from support.manifests import Json
from support.stage import Stage
from support.steering import apply_idle, kopf_has_caught_up, patch, request_and_wait


def properties(definition: Json, part: str) -> Json:
    """The fields of spec or status."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: Json = schema["properties"][part]["properties"]
    return found


@contextmanager
def defined_as(stage: Stage, change: Callable[[Json], None]) -> Iterator[None]:
    """Another definition on the cluster, until the end of the block."""
    other = crd()
    change(other)
    install(stage, other)
    try:
        yield
    finally:
        install(stage, crd())


def install(stage: Stage, definition: Json) -> None:
    """Apply it, and wait until the API server goes by it: some seconds after it has said yes."""
    stage.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(definition))
    known = sorted(properties(definition, "status")), sorted(properties(definition, "spec"))

    def goes_by_it() -> bool:
        try:
            stage.cluster.api.call("GET", f"/apis/fleetagent.dev/v1alpha1/namespaces/{stage.namespace}/fleetagents")
        except ApiError as error:
            if error.status not in {429, 503}:  # its storage begins anew
                raise
            return False
        spoken = stage.cluster.api.call("GET", "/openapi/v3/apis/fleetagent.dev/v1alpha1")
        named = spoken["components"]["schemas"]["dev.fleetagent.v1alpha1.FleetAgent"]["properties"]
        return (sorted(named["status"]["properties"]), sorted(named["spec"]["properties"])) == known

    eventually(goes_by_it, "the API server goes by the definition")


def but_for_the_look(stage: Stage) -> Json:
    """The status without the moment of the last look."""
    status = stage.status()
    return {**status, "fleet": {**status.get("fleet", {}), "observedAt": ""}}


def looks_of(stage: Stage) -> int:
    """How often the market was asked for its list."""
    count: int = stage.market.get("state")["calls"]["list"]
    return count


@pytest.fixture
def idle(stage: Stage) -> Stage:
    stage.start_operator()
    return stage


def test_what_an_older_definition_drops_is_named_with_a_remedy_and_the_remedy_helps(idle: Stage) -> None:
    def older(definition: Json) -> None:
        del properties(definition, "status")["spend"]
        del properties(definition, "status")["lastRun"]["properties"]["summary"]

    with defined_as(idle, older):
        apply_idle(idle)
        idle.wait_for(lambda: idle.condition("SchemaCurrent").get("status") == "False", "it is noticed")
        said = idle.condition("SchemaCurrent")
        assert said["reason"] == "CRDOutdated"
        assert "status.lastRun.summary" in said["message"]
        assert "status.spend" in said["message"]
        assert "fleetagent crd | kubectl apply" in said["message"]
        assert idle.condition("Ready")["status"] == "True"
        idle.wait_for(lambda: idle.events("CRDOutdated"), "people hear of it")
        assert "fleetagent_status_fields_dropped 2.0" in idle.metrics()
        request_and_wait(idle, "runs go on")
        request_and_wait(idle, "and on")
        idle.wait_for(lambda: kopf_has_caught_up(idle), "kopf has written down that it has seen this")
        written, looks = idle.resource()["metadata"]["resourceVersion"], looks_of(idle)
        idle.wait_for(lambda: looks_of(idle) > looks + 1, "the report of one more look has been made")
        assert idle.resource()["metadata"]["resourceVersion"] == written, "it is not written at every look"
        assert idle.log().count("CustomResourceDefinition drops") <= 2, "once for each set of fields"

    request_and_wait(idle, "the definition is new")
    idle.wait_for(lambda: idle.condition("SchemaCurrent").get("status") == "True", "its end is seen")
    assert "summary" in idle.status()["lastRun"]
    assert "fleetagent_status_fields_dropped 0.0" in idle.metrics()
    assert idle.log().count("CustomResourceDefinition drops nothing any more") == 1


def test_fields_of_a_newer_definition_are_passed_over(idle: Stage) -> None:
    def newer(definition: Json) -> None:
        properties(definition, "spec")["mood"] = {"type": "string", "maxLength": 9, "default": "sunny"}
        properties(definition, "status")["weather"] = {"type": "string", "maxLength": 9}
        properties(definition, "spec")["schedule"]["properties"]["nap"] = {"type": "integer"}

    with defined_as(idle, newer):
        path = f"/apis/fleetagent.dev/v1alpha1/namespaces/{idle.namespace}/fleetagents?dryRun=All"
        eventually(lambda: idle.cluster.api.call("POST", path, idle.manifest())["spec"].get("mood"), "it has the field")
        apply_idle(idle, schedule={"interval": "1h", "nap": 7})
        assert idle.resource()["spec"]["mood"] == "sunny"
        patch(idle, '{"status":{"weather":"rain"}}', "--subresource=status")
        request_and_wait(idle, "one")

        assert idle.resource()["spec"]["schedule"]["nap"] == 7
        assert idle.status()["weather"] == "rain"
        assert idle.condition("SchemaCurrent")["status"] == "True"
        assert idle.condition("Ready")["status"] == "True"


def test_a_new_resource_is_in_progress_for_tools_until_the_operator_has_looked(stage: Stage) -> None:
    stage.apply()
    assert kstatus(stage.resource()) == "InProgress"
    assert stage.status() == {"observedGeneration": -1}

    stage.start_operator()
    stage.wait_for(lambda: kstatus(stage.resource()) == "Current", "it is current")
    stage.cluster.kubectl("-n", stage.namespace, "wait", "--for=condition=Ready", "fleetagent/porep", "--timeout=20s")
    patch(stage, '{"spec":{"demand":{"static":null,"http":{"url":"http://169.254.169.254/"}}}}')
    stage.wait_for(lambda: kstatus(stage.resource()) == "Failed", "only an edit helps")
    patch(stage, '{"spec":{"demand":{"http":null,"static":{"active":true}}}}')
    stage.wait_for(lambda: kstatus(stage.resource()) == "Current", "it is current again")


def test_a_status_that_was_wiped_comes_back_within_a_look_although_nothing_else_happens(idle: Stage) -> None:
    apply_idle(idle)
    request_and_wait(idle, "so it is told")
    good = but_for_the_look(idle)

    patch(idle, '{"status":null}', "--subresource=status")

    idle.wait_for(lambda: but_for_the_look(idle) == good, "it is as it was", within_s=10)
    assert [run["run_id"] for run in idle.runs()] == [1, 2]
