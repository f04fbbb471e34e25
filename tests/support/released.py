"""Operators as Helm releases leave them: with the rights that a release has granted, told what it tells them."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetagent.dev.controlplane import ControlPlane
from support.helm import CHART, Helm, environment
from support.ports import free_port
from support.servers import MARKET_KEY, Market, Model
from support.stage import ACCOUNT, Stage
from support.steering import patch

RELEASE = ACCOUNT
"""The name of each release, so that its ServiceAccount is the one whose token a stage takes."""

TOLD = ("FLEETAGENT_NAMESPACES", "FLEETAGENT_CLUSTER", "FLEETAGENT_PEERING")


def install(stage: Stage) -> None:
    """Install the release for the stage's namespace, into its home; the stage's operators are told what it tells."""
    values = {"namespaces": [stage.namespace], "cluster": "shared", "crds": {"install": False}}
    helm = Helm(stage.cluster.kubeconfig)
    helm.run("install", RELEASE, CHART, "--namespace", stage.home, values=values)
    told = environment(helm.rendered(RELEASE, stage.home, values))
    stage.settings = {name.removeprefix("FLEETAGENT_").lower(): told[name] for name in TOLD}


def uninstall(stage: Stage) -> None:
    """Take the release away, whatever still runs."""
    Helm(stage.cluster.kubeconfig).run("uninstall", RELEASE, "--namespace", stage.home)


@contextmanager
def a_release(cluster: ControlPlane, database_url: str, market: Market, model: Model, folder: Path) -> Iterator[Stage]:
    """A stage with namespace and home of its own, and a release in it; no operator yet."""
    namespace, home = (f"{what}-{secrets.token_hex(4)}" for what in ("team", "home"))
    for name in (namespace, home):
        cluster.kubectl("create", "namespace", name)
    secret = ("secret", "generic", "vast", f"--from-literal=api-key={MARKET_KEY}")
    cluster.kubectl("--namespace", namespace, "create", *secret)
    folder.mkdir(exist_ok=True)
    stage = Stage(cluster, namespace, home, database_url, market, model, folder, worker_port=free_port())
    install(stage)
    try:
        yield stage
    finally:
        stage.end_operators()
        if stage.resource():
            patch(stage, '{"metadata":{"finalizers":null}}')  # nobody is there any more who would
        cluster.kubectl("delete", "namespace", namespace, home, "--wait=false")
