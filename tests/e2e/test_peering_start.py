"""A peering that is not as it must be keeps the operator from starting, with a line that says what to do."""

import copy
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.rbac import operator_objects, peering_definitions, peering_objects
from fleetagent.entrypoints.turns import FORMER_GROUP
from support.cluster import a_control_plane
from support.processes import run
from support.replicas import PEERING, apply, start_replica
from support.stage import ACCOUNT, Stage, a_stage

KINDS = ("crd/kopfpeerings.kopf.dev", "crd/clusterkopfpeerings.kopf.dev")


@pytest.fixture(scope="module")
def bare_cluster() -> Iterator[ControlPlane]:
    """A cluster that no operator on kopf has seen yet."""
    with a_control_plane() as cluster:
        yield cluster


@pytest.fixture
def bare(bare_cluster: ControlPlane, database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on it, whose operators want a peering."""
    namespace = f"test-{secrets.token_hex(5)}"
    bare_cluster.kubectl("create", "namespace", namespace)
    with a_stage(bare_cluster, namespace, database_url, tmp_path) as stage:
        stage.settings["peering"] = PEERING
        yield stage


def define(stage: Stage, *, with_subresource: bool) -> None:
    definitions = copy.deepcopy(peering_definitions())
    for definition in definitions:
        definition["spec"]["versions"][0]["subresources"] = {"status": {}} if with_subresource else None
    apply(stage, definitions)
    stage.cluster.kubectl("wait", "--for=condition=Established", *KINDS)


def define_former(stage: Stage) -> None:
    """The kinds that kopf's peering had years ago: where they are left, nobody makes an object of them."""
    definitions = copy.deepcopy(peering_definitions())
    for definition in definitions:
        definition["spec"]["group"] = FORMER_GROUP
        definition["metadata"]["name"] = f"{definition['spec']['names']['plural']}.{FORMER_GROUP}"
    apply(stage, definitions)
    stage.cluster.kubectl("wait", "--for=condition=Established", *(f"crd/{d['metadata']['name']}" for d in definitions))


@pytest.mark.parametrize("scope", ["namespaces", "cluster"])
def test_each_thing_that_a_peering_needs_is_named_when_it_is_missing(bare: Stage, scope: str) -> None:
    clusterwide = scope == "cluster"
    watched = () if clusterwide else (bare.namespace,)
    define_former(bare)
    apply(bare, operator_objects(bare.home, ACCOUNT, watched))
    kind, name = ("ClusterKopfPeering", PEERING) if clusterwide else ("KopfPeering", f"{bare.namespace}/{PEERING}")

    def line() -> str:
        return run(
            "operator",
            KUBECONFIG=str(bare.cluster.kubeconfig_for(ACCOUNT, bare.home)),
            FLEETAGENT_DATABASE_URL=bare.database_url,
            FLEETAGENT_NAMESPACES=",".join(watched),
            FLEETAGENT_PEERING=PEERING,
        ).line

    bare.cluster.kubectl("delete", "--ignore-not-found", *KINDS)
    assert f"{kind} {name} is refused (403): apply the chart's roles and bindings" in line()
    apply(bare, operator_objects(bare.home, ACCOUNT, watched, PEERING))
    assert "peerings.kopf.dev/v1 (404): apply crds/kopf-peerings.yaml of the chart" in line()
    define(bare, with_subresource=True)
    assert f"there is no {kind} {name} (404)" in line()
    apply(bare, peering_objects(PEERING, watched))
    assert f"{kind} {name} keeps no status" in line()
    define(bare, with_subresource=False)
    bare.settings["namespaces"] = ",".join(watched)
    replica = start_replica(bare)
    bare.wait_for(lambda: replica.active, "it works")
