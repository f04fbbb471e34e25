"""A namespace is deleted with the agent in it, its Secrets, perhaps the operator's rights and the operator itself."""

import subprocess
import sys
from dataclasses import replace

import pytest
import yaml

from fleetagent.dev.rbac import operator_objects
from support.asking import LOOK, ask, codes, launch, offers
from support.processes import environment
from support.servers import MARKET_KEY
from support.slips import a_secret
from support.stage import ACCOUNT, NAME, Stage
from support.steering import IDLE, apply_idle, patch

NO_FINALIZERS = '{"metadata":{"finalizers":null}}'
BUSY = {"proofsPerHour": 5000}


def for_the_whole_cluster(stage: Stage) -> None:
    """Rights that do not go with the namespace."""
    rights = operator_objects(stage.home, ACCOUNT, ())
    stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))


def a_fleet(stage: Stage) -> None:
    """Two machines, by an operator that is started."""
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)
    bought = ask(stage, [LOOK], [launch(offer) for offer in offers(stage)[:2]])
    assert codes(bought) == ["done"] * 2


def exists(stage: Stage, what: str) -> bool:
    """Whether a thing of the namespace, by its path in the API, is there."""
    return stage.cluster.api.exists(what.format(ns=stage.namespace))


NAMESPACE = "/api/v1/namespaces/{ns}"
SECRET = NAMESPACE + "/secrets/vast"
BINDING = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings/" + ACCOUNT
OPERATORS_ACCOUNT = NAMESPACE + f"/serviceaccounts/{ACCOUNT}"


def delete_namespace(stage: Stage, *gone_first: str) -> None:
    """Ask for it, and wait until the API server has taken these things away."""
    stage.cluster.kubectl("delete", "namespace", stage.namespace, "--wait=false")
    for what in gone_first:
        stage.wait_for(lambda what=what: not exists(stage, what), f"{what} is gone")  # type: ignore[misc]


def wait_until_gone(stage: Stage) -> None:
    stage.wait_for(lambda: not exists(stage, NAMESPACE), "the namespace is gone", 60)


def what_keeps_the_namespace(stage: Stage) -> str:
    """What the API server itself says of it."""
    found = stage.cluster.api.call("GET", NAMESPACE.format(ns=stage.namespace))
    conditions = {c["type"]: c for c in found["status"].get("conditions", [])}
    return str(conditions.get("NamespaceFinalizersRemaining", {}).get("message", ""))


def wait_until_the_finalizer_keeps_it(stage: Stage) -> None:
    """The namespace controller says so after a while."""
    finalizer = "kopf.zalando.org/KopfFinalizerMarker"
    stage.wait_for(lambda: finalizer in what_keeps_the_namespace(stage), "the namespace says what keeps it")


def swept(stage: Stage) -> str:
    """What `fleetagent sweep --destroy` says, for this agent."""
    wish = ["--namespace", stage.namespace, "--name", NAME, "--market-url", stage.market.base_url, "--destroy"]
    command = [sys.executable, "-m", "fleetagent", "sweep", "--api-key-file", "-", *wish]
    done = subprocess.run(
        command, input=MARKET_KEY, env=environment({}), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_machines_go_and_then_the_namespace_although_the_key_went_first(stage: Stage) -> None:
    for_the_whole_cluster(stage)
    a_fleet(stage)
    stage.market.put("faults", {"list": {"kind": "http_500", "times": 20}})

    delete_namespace(stage, SECRET)
    wait_until_gone(stage)

    assert stage.market.live() == []
    assert {r["phase"] for r in stage.rows("SELECT phase FROM instances")} == {"gone"}


def test_a_key_that_nobody_has_any_more_is_named_in_the_status_and_abandoning_lets_all_go(stage: Stage) -> None:
    """The operator was restarted after the Secret had gone; a namespace that goes takes neither Secret nor Event."""
    for_the_whole_cluster(stage)
    a_fleet(stage)
    stage.market.put("faults", {"list": "http_500"})
    delete_namespace(stage, SECRET)
    stage.restart_operator()
    stage.market.put("faults", {})

    stage.wait_for(lambda: "vast does not exist" in str(stage.condition("Ready").get("message")), "the status says why")
    ready = stage.condition("Ready")
    assert ready["reason"] == "DeletionWaits"
    assert "fleetagent.dev/abandon=yes" in ready["message"]
    wait_until_the_finalizer_keeps_it(stage)
    assert len(stage.market.live()) == 2

    stage.annotate(abandon="yes")
    wait_until_gone(stage)
    assert "0 machines are left" in swept(stage)
    assert stage.market.live() == []


def test_an_operator_whose_rights_go_with_the_namespace_ends_the_machines_and_a_person_the_resource(
    stage: Stage,
) -> None:
    """Installed for this namespace alone: its Role stands in there."""
    a_fleet(stage)
    stage.market.put("faults", {"list": {"kind": "http_500", "times": 20}})

    delete_namespace(stage, SECRET, BINDING)
    stage.wait_for(lambda: not stage.market.live(), "the machines are gone", 120)
    assert stage.resource()["metadata"]["finalizers"]
    wait_until_the_finalizer_keeps_it(stage)

    patch(stage, NO_FINALIZERS)
    wait_until_gone(stage)
    assert "0 machines" in swept(stage)


@pytest.mark.parametrize("way_out", ["finalizer", "operator"])
def test_an_operator_that_goes_with_the_namespace_leaves_machines_and_both_ways_out(stage: Stage, way_out: str) -> None:
    elsewhere, stage.home = stage.home, stage.namespace
    rights = operator_objects(stage.namespace, ACCOUNT, (stage.namespace,))
    stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
    a_fleet(stage)
    stage.home = elsewhere
    stage.market.put("faults", {"destroy": "http_500", "destroy_many": "http_500"})

    delete_namespace(stage, SECRET, BINDING, OPERATORS_ACCOUNT)
    stage.kill_operator()  # its pod goes too
    stage.market.put("faults", {})
    assert len(stage.market.live()) == 2
    wait_until_the_finalizer_keeps_it(stage)

    if way_out == "finalizer":
        patch(stage, NO_FINALIZERS)
    else:
        for_the_whole_cluster(stage)  # installed again in another namespace, with the same database
        stage.start_operator()
        stage.wait_for(lambda: "abandon=yes" in str(stage.condition("Ready").get("message")), "the status says why")
        stage.annotate(abandon="yes")
    wait_until_gone(stage)

    assert "0 machines are left" in swept(stage)
    assert stage.market.live() == []


def test_an_operator_that_was_uninstalled_first_is_installed_again_and_ends_the_machines(stage: Stage) -> None:
    a_fleet(stage)
    stage.kill_operator()
    rights = yaml.safe_dump_all(operator_objects(stage.home, ACCOUNT, (stage.namespace,)))
    stage.cluster.kubectl("delete", "-f", "-", stdin=rights)

    stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--wait=false")
    assert stage.resource()["metadata"]["deletionTimestamp"]
    assert len(stage.market.live()) == 2

    stage.cluster.kubectl("apply", "-f", "-", stdin=rights)
    stage.start_operator()
    stage.wait_for(lambda: not stage.resource(), "the resource is gone")
    assert stage.market.live() == []
    assert {r["phase"] for r in stage.rows("SELECT phase FROM instances")} == {"gone"}


def test_a_watched_namespace_that_is_gone_does_not_keep_the_agents_of_the_others_waiting(stage: Stage) -> None:
    """Its Role went with it: to ask for it again would be refused, and the process would never start."""
    lost = f"{stage.namespace}-lost"
    rights = yaml.safe_dump_all(operator_objects(stage.home, ACCOUNT, (stage.namespace, lost)))
    stage.start_operator(namespaces=f"{lost},{stage.namespace}")
    apply_idle(stage)
    operator = stage.operators[-1]
    assert f"namespace {lost} is left out until it is there again: it forbids us to list FleetAgents" in stage.log()

    stage.cluster.kubectl("create", "namespace", lost)
    stage.cluster.kubectl("apply", "-f", "-", stdin=rights)
    assert operator.wait(45) == 0
    stage.start_operator(namespaces=f"{lost},{stage.namespace}")
    second = replace(stage, namespace=lost)
    a_secret(second, "vast", {"api-key": MARKET_KEY})
    second.apply(spec=IDLE)
    second.wait_for(lambda: second.status().get("lastRun"), "the agent of the namespace that is back runs")
    stage.cluster.kubectl("-n", lost, "delete", "fleetagent", "--all", "--timeout=30s")
    stage.cluster.kubectl("delete", "namespace", lost, "--wait=false")
