"""The whole engine as the operator wires it, with a cluster in memory and a clock that a test moves.

Postgres, the market and the model server are real or simulated servers over sockets. `beat` is one pass of the keeper
with the runs that it starts: nothing happens between two beats, so that a test says when time passes.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.agent.keeper import Keeper
from fleetagent.agent.subject import label_prefix
from fleetagent.agent.triggers import key_of
from fleetagent.bootstrap.build import Built, Outside, build
from fleetagent.domain.records import AgentKey
from fleetagent.settings import Settings
from support.border import Border
from support.manifests import Json, a_manifest, merged
from support.servers import MARKET_KEY

CLUSTER = "test"
NAME = "porep"
NAMESPACE = "prod"
UID = "0c8f2f5e-0000-4000-8000-000000000001"
RUNS_IN_A_BEAT = 10
NOBODY = "http://127.0.0.1:9"
"""Where machines report to in tests without workers: nobody listens there."""


@dataclass
class MovedClock:
    """The real clock, so much ahead; or one that stands still but for `advance`, however slow the machine is."""

    ahead: timedelta = timedelta(0)
    _stands_at: tuple[datetime, float] | None = None

    def stand_still(self) -> None:
        self._stands_at = self._real()

    def now(self) -> datetime:
        return (self._stands_at or self._real())[0] + self.ahead

    def steady(self) -> float:
        return (self._stands_at or self._real())[1] + self.ahead.total_seconds()

    @staticmethod
    def _real() -> tuple[datetime, float]:
        return datetime.now(UTC), time.monotonic()  # noqa: TID251

    def advance(self, **by: float) -> None:
        self.ahead += timedelta(**by)


@dataclass
class StoredCluster:
    """Implements ports.Cluster for one resource. With a file, the status outlives the process, as it does in etcd."""

    body: Json
    file: Path | None = None
    events: list[tuple[str, str]] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=lambda: {"api-key": MARKET_KEY})
    stop: str | None = None
    patched: int = 0

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            self.body["status"] = json.loads(self.file.read_text())

    @property
    def status(self) -> Json:
        """The stored status; empty before the first report."""
        found: Json = self.body.get("status") or {}
        return found

    def condition(self, name: str) -> Json:
        """One condition; empty while it is not there."""
        return next((c for c in self.status.get("conditions", []) if c["type"] == name), {})

    def said(self, reason: str) -> list[str]:
        """Messages of the Events with this reason."""
        return [message for known, message in self.events if known == reason]

    async def secret(self, namespace: str, name: str, key: str) -> str:
        del namespace, name
        return self.secrets[key]

    async def secret_map(self, namespace: str, name: str) -> Mapping[str, str]:
        del namespace, name
        return {}

    async def patch_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        del namespace, name
        self.patched += 1
        self.body["status"] = json.loads(json.dumps(merged(self.status, status)))
        if self.file is not None:
            newer = self.file.with_suffix(".new")
            newer.write_text(json.dumps(self.status))
            newer.replace(self.file)
        return self.status

    async def event(self, namespace: str, name: str, uid: str, *, kind: str, reason: str, message: str) -> None:
        del namespace, name, uid, kind
        self.events.append((reason, message))

    async def installation_stop(self) -> str | None:
        return self.stop


class Complaints(logging.Handler):
    """Keeps what is logged as an error: the engine says so when a pass or a run broke."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@dataclass
class Engine:
    """One operator process that keeps one agent."""

    built: Built
    cluster: StoredCluster
    keeper: Keeper
    clock: MovedClock
    complaints: Complaints
    pool: AsyncEngine
    _beside: asyncio.Task[None] | None = None

    async def beat(self, **later: float) -> None:
        """Let time pass, then one pass and every run that is due: `await engine.beat(minutes=5)`."""
        self.clock.advance(**later)
        for _ in range(RUNS_IN_A_BEAT):
            await self.passed()
            if (run := self.keeper._run) is None:
                return
            await asyncio.wait({run})
            if self._beside is not None:
                await self._beside
                self._beside = None
        raise AssertionError("runs follow each other without end")

    async def passed(self) -> None:
        """One pass over the resource as it is now; a run that it starts goes on."""
        self.keeper._body = self.cluster.body
        self.keeper._nudged.clear()
        await self.keeper._try()

    async def passed_beside(self) -> None:
        """As `passed`, while a run is under way that must go on: whoever calls may be that run."""
        self._beside = asyncio.create_task(self.passed())
        await asyncio.sleep(0)

    async def ask(self, request: str, **later: float) -> None:
        """A person asks for a run; it has ended afterwards."""
        self.annotate(requested_at=request)
        await self.beat(**later)
        assert self.cluster.status.get("lastHandledRequest") == request, self.cluster.status

    def annotate(self, **annotations: str) -> None:
        """As a person does; underscores become dashes."""
        said = {f"fleetagent.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
        self.cluster.body = merged(self.cluster.body, {"metadata": {"annotations": said}})

    def change(self, **spec: Any) -> None:
        """Apply another spec."""
        self.cluster.body = merged(self.cluster.body, {"spec": spec})


def a_body(market_url: str, model_url: str, *, name: str = NAME, uid: str = UID, **changes: Any) -> Json:
    """An agent whose runs come when they are asked for, and whose machines may take their time."""
    usual = {
        "metadata": {"uid": uid, "generation": 1},
        "spec": {
            "schedule": {"interval": "24h", "skipUnchanged": False},
            "model": {"baseURL": model_url, "name": "qwen3.5-122b"},
            "limits": {"launchesPerRun": 4, "launchesPerHour": 60, "minInstanceAge": "0s"},
            "fleet": {
                "vast": {"baseURL": market_url, "offers": {"gpuNames": ["RTX 5090", "RTX 4090"]}},
                "timeouts": {"loading": "24h", "registered": "24h", "benchmarking": "24h"},
            },
        },
    }
    return merged(a_manifest(name=name, namespace=NAMESPACE), merged(usual, changes))


def prefix_of(name: str = NAME) -> str:
    """How the labels of this agent's machines begin."""
    return label_prefix(CLUSTER, AgentKey(NAMESPACE, name))


@asynccontextmanager
async def an_engine(
    database_url: str,
    cluster: StoredCluster,
    *,
    clock: MovedClock | None = None,
    owner: str = "one",
    worker_url: str = NOBODY,
    border: Border | None = None,
    **settings: Any,
) -> AsyncIterator[Engine]:
    """A process that has read its settings and looked at nothing yet."""
    clock = clock or MovedClock()
    told = {"cluster": CLUSTER, "allowed_hosts": ("127.0.0.1",), "worker_url": worker_url, "market_pacing": False}
    read = Settings(database_url=database_url, **{**told, "look_seconds": 0.2, **settings})
    pool = open_engine(database_url, 4)
    http = httpx.AsyncClient(transport=border, trust_env=False, follow_redirects=False)
    outside = Outside(http=http, now=clock.now, steady=clock.steady)
    built = build(read, cluster=cluster, engine=pool, renewals=pool, owner=owner, outside=outside)
    complaints = Complaints()
    logging.getLogger("fleetagent").addHandler(complaints)
    keeper = Keeper(key_of(cluster.body), built.triggers._keeping)
    try:
        yield Engine(built, cluster, keeper, clock, complaints, pool)
    finally:
        await keeper.stop()
        await built.triggers.close()
        logging.getLogger("fleetagent").removeHandler(complaints)
        await outside.http.aclose()
        await outside.model_http.aclose()
        await pool.dispose()
