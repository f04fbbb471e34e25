"""The least rights: all that the product does, done once under the chart's rules, with the API server's audit log."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.dev.rbac import operator_objects, peering_definitions, peering_objects
from support.asking import BY_HAND, LOOK, ask, codes, launch, offers, spoken
from support.audit import Asked, Right, asked_by, rights_of
from support.cluster import CRD, a_control_plane
from support.curio import CurioDatabase, a_curio_database
from support.manifests import ABSENT, Json
from support.ports import free_port
from support.servers import MARKET_KEY, a_market, a_model
from support.slips import a_secret
from support.stage import ACCOUNT, NAME, Stage

HOME, FIRST, SECOND, PEERING = "operators-home", "first", "second", "fleetagent"
WATCHES_ARE_RENEWED = "40"
"""Seconds of silence that are borne: an open watch is ended, and opened anew, several times within them."""
UNDER_WAY = """
    SELECT FROM runs WHERE state = 'running' UNION ALL
    SELECT FROM triggers WHERE state = 'pending' AND kind <> 'Event'
"""
"""What a machine tells is not heard before the debounce of five minutes."""
SECRETS = {"vast", "curio-db", "llm", "prover-env"}
NAMES_THEM_ALL: dict[str, Any] = {
    "schedule": BY_HAND,
    "target": {"proofsPerHour": 5000},
    "demand": {"static": ABSENT, "curio": {"dsnSecretRef": {"name": "curio-db", "key": "dsn"}}},
    "model": {"apiKeySecretRef": {"name": "llm", "key": "api-key"}},
    "fleet": {"vast": {"instance": {"envFromSecretRef": {"name": "prover-env"}}}},
}
"""A spec that needs each Secret."""


@pytest.fixture
def apart() -> Iterator[ControlPlane]:
    """A Kubernetes API of this test's own: what happens to the resource's definition is seen by nobody else."""
    with a_control_plane(audit=True) as running:
        apply(running, peering_definitions())
        running.kubectl("wait", "--for=condition=Established", "crd", "--all")
        for name in (HOME, FIRST, SECOND):
            running.kubectl("create", "namespace", name)
        yield running


@pytest.fixture
def curio(postgres_server: EmbeddedPostgres) -> Iterator[CurioDatabase]:
    with a_curio_database(postgres_server) as database:
        yield database


def apply(cluster: ControlPlane, objects: list[Json]) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))


@contextmanager
def installed(cluster: ControlPlane, database_url: str, folder: Path, watched: tuple[str, ...]) -> Iterator[Stage]:
    """The operator under the chart's rules for these namespaces, or for the whole cluster; replicas take turns."""
    apply(cluster, operator_objects(HOME, ACCOUNT, watched, PEERING) + peering_objects(PEERING, watched))
    with a_market() as market, a_model() as model:
        stage = Stage(cluster, FIRST, HOME, database_url, market, model, folder, worker_port=free_port())
        stage.settings |= {"namespaces": ",".join(watched), "peering": PEERING, "silent_seconds": WATCHES_ARE_RENEWED}
        try:
            yield stage
        finally:
            stage.end_operators()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("watched", [(), (FIRST, SECOND)], ids=["the whole cluster", "a Role in each namespace"])
def test_nothing_is_refused_and_no_right_is_granted_that_nothing_needs(
    apart: ControlPlane, database_url: str, curio: CurioDatabase, tmp_path: Path, watched: tuple[str, ...]
) -> None:
    with installed(apart, database_url, tmp_path, watched) as stage:
        for namespace in (FIRST, SECOND):
            provide_secrets(replace(stage, namespace=namespace), curio)
        stage.start_operator()
        lives_and_is_steered(stage)
        is_held_back(stage)
        outlives_the_operator_and_a_new_definition(stage)
        is_deleted(stage)
        lives_shortly(replace(stage, namespace=SECOND))
        stage.kill_operator(signal.SIGTERM)
        granted, asked = rights_of(apart, ACCOUNT, HOME), asked_by(apart, ACCOUNT, HOME)

    assert {a for a in asked if a.refused} == set()
    assert sorted(map(str, unused(granted, asked))) == []
    assert {a.verb for a in asked if a.resource == "secrets"} == {"get"}
    assert {(a.namespace, a.name) for a in asked if a.resource == "secrets"} == {
        (namespace, name) for namespace in (FIRST, SECOND) for name in SECRETS
    }


def unused(granted: frozenset[Right], asked: list[Asked]) -> set[Right]:
    return {right for right in granted if not any(request.needs(right) for request in asked)}


def provide_secrets(stage: Stage, curio: CurioDatabase) -> None:
    """All that a resource may name."""
    values = {"vast": {"api-key": MARKET_KEY}, "curio-db": {"dsn": curio.dsn}, "llm": {"api-key": "any"}}
    for name, value in {**values, "prover-env": {"WALLET": "f01000"}}.items():
        a_secret(stage, name, value)
    if stage.namespace == FIRST:
        curio.add("harmony_task", {"name": "PoRep"})


def lives_and_is_steered(stage: Stage) -> None:
    """Runs, a machine, and every annotation that a person may set."""
    ask(stage, [LOOK], **NAMES_THEM_ALL)
    bought = ask(stage, [LOOK], [launch(offers(stage)[0])])
    assert codes(bought) == ["done"]
    ask(stage, [{"name": "raise_alert", "arguments": {"severity": "warning", "message": "the market is dear"}}])
    (alert,) = stage.rows("SELECT id FROM alerts WHERE code = 'Model'")
    stage.model.put("script", spoken([]) * 9)  # whatever runs from here on buys nothing
    stage.annotate(message="be frugal", acknowledge=f"alert-{alert['id']}: known")
    stage.wait_for(lambda: stage.rows("SELECT 1 FROM alerts WHERE state = 'acknowledged'"), "the alert is acknowledged")
    stage.annotate(reset_requested_at="r")
    stage.wait_for(lambda: stage.status().get("lastHandledReset") == "r", "the reset is served")
    stage.wait_for(lambda: not stage.rows(UNDER_WAY), "the message is heard")


def is_held_back(stage: Stage) -> None:
    """Approval, suspension, and the installation's stop."""
    waits = ask(stage, [LOOK], [launch(offers(stage)[1])], **NAMES_THEM_ALL, mode="Approve")
    stage.annotate(approve=f"action-{waits[0]['id']}")
    stage.wait_for(lambda: len(stage.market.live()) == 2, "the approved machine is there")
    stage.apply(spec={**NAMES_THEM_ALL, "mode": "Suspended"})
    stage.wait_for(lambda: stage.condition("Suspended").get("status") == "True", "it is suspended")
    stage.cluster.kubectl("-n", HOME, "create", "configmap", "fleetagent-stop")
    refused = ask(stage, [LOOK], [launch(offers(stage)[2])], **NAMES_THEM_ALL, mode="Act")
    assert codes(refused) == ["InstallationStopped"]
    stage.cluster.kubectl("-n", HOME, "delete", "configmap", "fleetagent-stop")


def outlives_the_operator_and_a_new_definition(stage: Stage) -> None:
    """A restart, and a changed CustomResourceDefinition, after which kopf looks at all resources anew."""
    stage.restart_operator(signal.SIGTERM)
    ask(stage, [LOOK])
    stage.cluster.kubectl("annotate", "-f", str(CRD), "example.com/changed=yes")
    ask(stage, [LOOK])


def is_deleted(stage: Stage) -> None:
    """With its machines, by way of the finalizer; and nothing is left for a sweep, which needs no cluster at all."""
    stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--wait=false")
    stage.wait_for(lambda: not stage.resource(), "the resource is gone")
    assert stage.market.live() == []


def lives_shortly(stage: Stage) -> None:
    """An agent in another watched namespace: one machine, then it goes."""
    ask(stage, [LOOK], **NAMES_THEM_ALL)
    ask(stage, [LOOK], [launch(offers(stage)[0])])
    assert len(stage.market.live()) == 1
    is_deleted(stage)
