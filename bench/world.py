"""The product on a stage, paced as in production: an operator process, an API server, Postgres, market and model."""

import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.stage import NAME, Stage, a_stage

ROOT = Path(__file__).parents[1]
NAMESPACE = "bench"
CALL_SECONDS = 20.0
QUIET_SECONDS = 8.0  # longer than the idle time after which a burst of fleet events becomes a run
LOOKS_AGAIN_SECONDS = 0.25

ONCE_A_DAY = {"schedule": {"interval": "24h"}}
"""No run by the clock falls between the runs that we ask for."""


def say(text: str) -> None:
    """Progress, for whoever waits."""
    print(text, flush=True)


@contextmanager
def a_world(*, audit: bool = False) -> Iterator[Stage]:
    """A stage whose operator is not started yet; with `audit` the API server writes down what it is asked."""
    with (
        tempfile.TemporaryDirectory(prefix="fleetagent-bench-") as folder,
        ControlPlane.start(progress=say, audit=audit) as cluster,
        EmbeddedPostgres.start() as postgres,
    ):
        crd = str(ROOT / "crds" / "fleetagents.yaml")
        cluster.kubectl("apply", "--server-side", "-f", crd)
        cluster.kubectl("wait", "--for=condition=Established", "-f", crd)
        cluster.kubectl("create", "namespace", NAMESPACE)
        database_url = postgres.create_database("bench")
        migrate_to_head(database_url)
        with a_stage(cluster, NAMESPACE, database_url, Path(folder)) as stage:
            yield stage


def a_settled_fleet(stage: Stage, **spec: Any) -> None:
    """Apply the agent that is measured and wait until its whole fleet proves and nothing is left to do."""
    stage.apply(spec=ONCE_A_DAY | spec)
    stage.wait_for_target(within_s=180)
    until(stage, lambda: stage.status()["fleet"]["onTheWay"] == 0, "all machines prove")
    wait_for_quiet(stage)


def wait_for_quiet(stage: Stage) -> None:
    """Until no run has been going on, nor anything has called for one, for some seconds."""
    busy = (
        "SELECT (SELECT count(*) FROM runs WHERE state = 'running' OR finished_at > now() - make_interval(secs => %s))"
        " + (SELECT count(*) FROM triggers WHERE state = 'pending') AS things"
    )
    until(stage, lambda: stage.rows(busy, QUIET_SECONDS)[0]["things"] == 0, "the runs come to rest")


def add_agents(stage: Stage, count: int, *, first: int = 0, **spec: Any) -> None:
    """So many more agents, without demand: each is looked at, and none has machines."""
    finished = "SELECT count(DISTINCT agent_id) AS agents FROM runs WHERE state = 'finished'"
    before = stage.rows(finished)[0]["agents"]
    more = [
        stage.manifest(
            metadata={"name": f"{NAME}-{number:03}"}, spec=ONCE_A_DAY | {"demand": {"static": {"active": False}}} | spec
        )
        for number in range(first, first + count)
    ]
    stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(more))
    until(stage, lambda: stage.rows(finished)[0]["agents"] >= before + count, f"{count} more agents have had a run")
    wait_for_quiet(stage)


def until(stage: Stage, true: Callable[[], bool], what: str) -> None:
    """Wait for a state, looking seldom enough not to disturb."""

    def seldom() -> bool:
        time.sleep(LOOKS_AGAIN_SECONDS)
        return true()

    stage.wait_for(seldom, what, within_s=300)


@dataclass(frozen=True, slots=True)
class Annotator:
    """Annotates over one open connection, as a controller would: no process start or handshake is measured."""

    connection: http.client.HTTPSConnection
    token: str

    @classmethod
    @contextmanager
    def of(cls, cluster: ControlPlane) -> Iterator["Annotator"]:
        """As the admin."""
        context = ssl.create_default_context(cafile=cluster.ca_path)
        connection = http.client.HTTPSConnection("127.0.0.1", cluster.api.port, context=context, timeout=CALL_SECONDS)
        try:
            yield cls(connection, cluster.admin_token)
        finally:
            connection.close()

    def request_run(self, name: str, value: str) -> float:
        """Set `requested-at`; the moment, as `time.time()` tells it, just before the patch left."""
        path = f"/apis/fleetagent.dev/v1alpha1/namespaces/{NAMESPACE}/fleetagents/{name}"
        body = json.dumps({"metadata": {"annotations": {"fleetagent.dev/requested-at": value}}}).encode()
        try:
            self._exchange("GET", "/version")
        except (OSError, http.client.HTTPException):  # the server closes what has been idle for long
            self.connection.close()
            self._exchange("GET", "/version")
        sent_at = time.time()
        self._exchange("PATCH", path, body)
        return sent_at

    def _exchange(self, method: str, path: str, body: bytes | None = None) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
        self.connection.request(method, path, body=body, headers=headers)
        answer = self.connection.getresponse()
        answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{method} {path}: {answer.status}")
