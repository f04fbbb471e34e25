"""Several operator processes that take turns by one peering, as replicas of one installation do."""

import json
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from fleetagent.bootstrap.build import utc_now
from fleetagent.dev.rbac import operator_objects, peering_definitions, peering_objects
from support.manifests import Json
from support.ports import free_port
from support.stage import ACCOUNT, Stage

PEERING = "fleetagent"
HIGHEST = 2**63 - 1
"""A priority that no replica has."""


@dataclass(frozen=True)
class Replica:
    """One of the processes."""

    process: subprocess.Popen[bytes]
    log: Path
    web_port: int

    @property
    def name(self) -> str:
        """How it calls itself in the peering and in the lease; empty until it has said so."""
        found = re.search(r"this is (\S+) with priority", self.log.read_text(errors="replace"))
        return found[1] if found else ""

    @property
    def active(self) -> bool:
        """Whether it says that it works."""
        return says_that_it_works(self.web_port)

    def send(self, number: int) -> None:
        """A signal."""
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM, within_s: float = 20) -> float:
        """Send a signal and wait for the end: how many seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(within_s)
        return time.monotonic() - began


def says_that_it_works(web_port: int) -> bool:
    """What it says of itself to Prometheus; False while it says nothing."""
    try:
        text = httpx.get(f"http://127.0.0.1:{web_port}/metrics", trust_env=False, timeout=5).text
    except httpx.HTTPError:
        return False
    return "fleetagent_active 1.0" in text


def with_peering(stage: Stage) -> Stage:
    """A stage whose operators take turns: the peering's definition, the object, and the rights."""
    apply(stage, peering_definitions())
    stage.cluster.kubectl("wait", "--for=condition=Established", "crd/kopfpeerings.kopf.dev")
    apply(stage, peering_objects(PEERING, (stage.namespace,)))
    apply(stage, operator_objects(stage.home, ACCOUNT, (stage.namespace,), PEERING))
    stage.settings["peering"] = PEERING
    return stage


def apply(stage: Stage, objects: list[Json]) -> None:
    """As `kubectl apply` does."""
    stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))


def start_replica(stage: Stage, **settings: str) -> Replica:
    """One process more; with a peering it has given its first sign when this returns."""
    number = len(stage.operators)
    port = stage.worker_port if number == 0 else free_port()
    process = stage.start_operator(worker_listen=f"127.0.0.1:{port}", **settings)
    replica = Replica(process, stage.folder / f"operator-{number}.log", stage.web_port)
    if "peering" in stage.settings:
        stage.wait_for(lambda: replica.name and replica.name in peers(stage), "the replica gives a sign")
    return replica


def start_two(stage: Stage, **settings: str) -> tuple[Replica, Replica]:
    """The elder, which is active, and the one that stands by."""
    elder = start_replica(stage, **settings)
    stage.wait_for(lambda: elder.active, "the first one works")
    return elder, start_replica(stage, **settings)


def peers(stage: Stage) -> dict[str, Any]:
    """Who has given a sign, by name."""
    found: dict[str, Any] = stage.cluster.api.call("GET", _path(stage)).get("status") or {}
    return found


def pretend(stage: Stage, name: str, *, priority: int = HIGHEST, lifetime_s: int = 600) -> None:
    """Let a stranger give a sign: a process that somebody has started by hand."""
    sign = {"priority": priority, "lifetime": lifetime_s, "lastseen": utc_now().isoformat()}
    _patch(stage, {name: sign})


def pretend_gone(stage: Stage, name: str) -> None:
    """The stranger has said goodbye."""
    _patch(stage, {name: None})


def owners(stage: Stage) -> set[str]:
    """Who holds a lease now."""
    held = "SELECT DISTINCT lease_owner FROM agents WHERE lease_until > now()"
    return {str(row["lease_owner"]) for row in stage.rows(held)}


def _patch(stage: Stage, status: Json) -> None:
    body = json.dumps({"status": status})
    stage.cluster.kubectl("-n", stage.namespace, "patch", "kopfpeering", PEERING, "--type=merge", "-p", body)


def _path(stage: Stage) -> str:
    if not stage.settings.get("namespaces", stage.namespace):
        return f"/apis/kopf.dev/v1/clusterkopfpeerings/{PEERING}"
    return f"/apis/kopf.dev/v1/namespaces/{stage.namespace}/kopfpeerings/{PEERING}"
