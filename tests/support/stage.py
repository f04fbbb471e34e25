"""The whole product on a stage: the real operator process, a real API server and Postgres, simulated market and model.

`stage.apply()` and `stage.wait_for(…)` read like a story; whatever is asserted is read from status, Postgres, the
market's own count or the model server's own record.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from psycopg.rows import dict_row

from fleetagent.dev.apiserver import ApiError
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.rbac import operator_objects
from fleetagent.settings import Settings
from support.cluster import eventually
from support.manifests import Json, merged
from support.ports import free_port
from support.servers import MARKET_KEY, Market, Model, a_market, a_model

NAME = "porep"
ACCOUNT = "fleetagent"
BEAT_SECONDS, LEASE_SECONDS = 0.5, 10
"""The haste of the tests…"""
AS_INSTALLED = {
    name: str(Settings.model_fields[name].default)
    for name in ("beat_seconds", "look_seconds", "lease_seconds", "settling_seconds", "confirm_gone_seconds")
}
"""…and the operator's own pace."""


@dataclass
class Stage:
    """One agent's world; each test has its own namespace, database, market and model."""

    cluster: ControlPlane
    namespace: str
    home: str
    database_url: str
    market: Market
    model: Model
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    operators: list[subprocess.Popen[bytes]] = field(default_factory=list)
    worker_port: int = 0
    web_port: int = 0
    """Of the newest operator."""
    sources: Path | None = None
    """Where the next operator's code is, if it is another version than this one."""
    kubeconfig: Path | None = None
    """How the next operator reaches the API server, if not straight and with the account's own token."""

    # --- the operator ---

    def start_operator(self, **settings: str) -> subprocess.Popen[bytes]:
        """Start an operator process under the chart's ServiceAccount and rules."""
        number = len(self.operators)
        self.web_port = free_port()
        env = {name: value for name, value in os.environ.items() if not name.startswith("FLEETAGENT_")}
        env |= {
            "KUBECONFIG": str(self.kubeconfig or self.cluster.kubeconfig_for(ACCOUNT, self.home)),
            "FLEETAGENT_DATABASE_URL": self.database_url,
            "FLEETAGENT_NAMESPACES": self.namespace,
            "FLEETAGENT_ALLOWED_HOSTS": "127.0.0.1",
            "FLEETAGENT_WORKER_LISTEN": f"127.0.0.1:{self.worker_port}",
            "FLEETAGENT_WORKER_URL": f"http://127.0.0.1:{self.worker_port}",
            "FLEETAGENT_HEALTH_LISTEN": f"127.0.0.1:{free_port()}",
            "FLEETAGENT_WEB_LISTEN": f"127.0.0.1:{self.web_port}",
            "FLEETAGENT_BEAT_SECONDS": str(BEAT_SECONDS),
            "FLEETAGENT_LOOK_SECONDS": "0.5",
            "FLEETAGENT_LEASE_SECONDS": str(LEASE_SECONDS),
            "FLEETAGENT_SETTLING_SECONDS": "2",
            "FLEETAGENT_CONFIRM_GONE_SECONDS": "1",
            "FLEETAGENT_MARKET_PACING": "false",
            **{f"FLEETAGENT_{k.upper()}": v for k, v in {**self.settings, **settings}.items()},
            **({"PYTHONPATH": str(self.sources)} if self.sources else {}),
        }
        with (self.folder / f"operator-{number}.log").open("wb") as log:
            process = subprocess.Popen([sys.executable, "-m", "fleetagent", "operator"], env=env, stderr=log)
        self.operators.append(process)
        return process

    def kill_operator(self, number: int = signal.SIGKILL) -> None:
        """End the newest operator: by default as a crash does."""
        process = self.operators[-1]
        process.send_signal(number)
        process.wait(20)

    def end_operators(self) -> None:
        """Kill whichever still runs, and wait until all have ended."""
        for process in self.operators:
            if process.poll() is None:
                process.kill()
                process.wait(10)

    def restart_operator(self, number: int = signal.SIGKILL, **settings: str) -> None:
        """End it and start another."""
        self.kill_operator(number)
        self.start_operator(**settings)

    def log(self) -> str:
        """What all operator processes have said."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("operator-*.log")))

    def metrics(self) -> str:
        """What Prometheus would scrape from the newest operator."""
        answer = httpx.get(f"http://127.0.0.1:{self.web_port}/metrics", trust_env=False, timeout=30)
        return answer.raise_for_status().text

    # --- the resource ---

    def manifest(self, **changes: Any) -> Json:
        """An agent that reaches 200 proofs/h with a few machines, one run every ten seconds."""
        usual = {
            "apiVersion": "fleetagent.dev/v1alpha1",
            "kind": "FleetAgent",
            "metadata": {"name": NAME, "namespace": self.namespace},
            "spec": {
                "target": {"proofsPerHour": 200},
                "schedule": {"interval": "10s"},
                "model": {"baseURL": self.model.url, "name": "qwen3.5-122b"},
                "budget": {"fleetUsdPerHour": "4.00"},
                "limits": {"launchesPerRun": 4, "launchesPerHour": 30, "minInstanceAge": "0s"},
                "fleet": {
                    "vast": {
                        "baseURL": self.market.base_url,
                        "apiKeySecretRef": {"name": "vast", "key": "api-key"},
                        "offers": {"gpuNames": ["RTX 5090", "RTX 4090"], "maxUsdPerHour": "0.90"},
                        "instance": {"image": "example/curio-prover:latest"},
                    }
                },
                "demand": {"static": {"active": True}},
            },
        }
        return merged(usual, changes)

    def apply(self, **changes: Any) -> Json:
        """Apply the agent's manifest with changes: `stage.apply(spec={"mode": "DryRun"})`."""
        manifest = self.manifest(**changes)
        self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
        return manifest

    def annotate(self, **annotations: str) -> None:
        """Annotate as a person does; underscores become dashes: `stage.annotate(requested_at="1")`."""
        pairs = [f"fleetagent.dev/{name.replace('_', '-')}={value}" for name, value in annotations.items()]
        self.cluster.kubectl("-n", self.namespace, "annotate", "--overwrite", "fleetagent", NAME, *pairs)

    def resource(self, name: str = NAME) -> Json:
        """The stored resource; empty when there is none."""
        path = f"/apis/fleetagent.dev/v1alpha1/namespaces/{self.namespace}/fleetagents/{name}"
        try:
            found: Json = self.cluster.api.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        return found

    def status(self) -> Json:
        """The stored status; empty before the first report."""
        found: Json = self.resource().get("status") or {}
        return found

    def condition(self, name: str) -> Json:
        """One condition; empty while it is not there."""
        return next((c for c in self.status().get("conditions", []) if c["type"] == name), {})

    def events(self, reason: str) -> list[str]:
        """Messages of the Events with this reason."""
        found = self.cluster.api.call("GET", f"/api/v1/namespaces/{self.namespace}/events")
        return [e["message"] for e in found["items"] if e["reason"] == reason]

    # --- what happened ---

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Read Postgres as an outside check would."""
        with psycopg.connect(self.database_url, row_factory=dict_row, autocommit=True) as connection:
            return list(connection.execute(query, values).fetchall())

    def runs(self) -> list[dict[str, Any]]:
        """Every run, oldest first."""
        return self.rows("SELECT * FROM runs ORDER BY agent_id, run_id")

    def wait_for(self, true: Callable[[], Any], what: str, within_s: float = 60.0) -> None:
        """Wait for a state, with a limit; a dead operator ends the wait with its last words."""

        def seen() -> bool:
            if self.operators and self.operators[-1].poll() not in {None, -9, -15}:
                pytest.fail(f"the operator ended while waiting for {what}:\n{self.log()[-3000:]}")
            return bool(true())

        deadline = time.monotonic() + within_s
        while not seen():
            if time.monotonic() > deadline:
                pytest.fail(
                    f"not within {within_s:g} s: {what}\nstatus: {json.dumps(self.status(), indent=1)[:4000]}\n"
                    f"operator: …{self.log()[-3000:]}"
                )
            time.sleep(0.05)

    def wait_for_runs(self, count: int, within_s: float = 60.0) -> list[dict[str, Any]]:
        """Wait until so many runs have ended."""

        def ended() -> list[dict[str, Any]]:
            return [r for r in self.runs() if r["state"] != "running"]

        self.wait_for(lambda: len(ended()) >= count, f"{count} runs", within_s)
        return ended()

    def wait_for_target(self, within_s: float = 90.0) -> None:
        """Wait until what proves and what is on its way suffice."""
        self.wait_for(lambda: self.condition("OnTarget").get("status") == "True", "OnTarget", within_s)

    def prefix(self) -> str:
        """How this agent's labels begin, as the ledger has them."""
        rows = self.rows("SELECT label FROM instances LIMIT 1")
        return rows[0]["label"].rpartition("/")[0] + "/" if rows else "fa/"

    def check_books(self) -> None:
        """The three invariants: valid requests, at most one machine per intent, every live machine known."""
        assert list(self._faults_in_books()) == []

    def wait_for_books(self, within_s: float = 30.0) -> None:
        """The same, once the ledger has heard of everything that happened on the market."""
        deadline = time.monotonic() + within_s
        while (faults := list(self._faults_in_books())) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert faults == [], f"still after {within_s:g} s"

    def _faults_in_books(self) -> Iterator[str]:
        """What one reading of both shows; while something goes on, that may be a difference that is none."""
        state = self.model.get("state")
        if state["violations"]:
            yield f"invalid requests: {state['violations_by_rule']}"
        ours = [m for m in self.market.get("state")["machines"] if (m["label"] or "").startswith("fa/")]
        labels = [m["label"] for m in ours]
        if len(labels) != len(set(labels)):
            yield f"two machines for one intent: {sorted(labels)}"
        known = {r["label"]: r for r in self.rows("SELECT * FROM instances")}
        if unknown := set(labels) - set(known):
            yield f"machines that nobody knows of: {unknown}"
        live = {m["label"] for m in ours if m.get("destroyed_at") is None}
        ledger = {label for label, row in known.items() if row["phase"] not in {"gone", "failed"}}
        if live != ledger:
            yield f"on the market {sorted(live)}, in the ledger {sorted(ledger)}"


def admit(cluster: ControlPlane, namespace: str) -> str:
    """The operator's own namespace, its ServiceAccount and the chart's rules for one watched namespace."""
    home = f"home-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", home)
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(operator_objects(home, ACCOUNT, (namespace,))))
    cluster.kubectl("-n", namespace, "create", "secret", "generic", "vast", f"--from-literal=api-key={MARKET_KEY}")
    return home


@contextmanager
def a_stage(cluster: ControlPlane, namespace: str, database_url: str, folder: Path, **market: Any) -> Iterator[Stage]:
    """A stage without an operator yet."""
    with a_market(**market) as simulated_market, a_model() as simulated_model:
        stage = Stage(
            cluster,
            namespace,
            admit(cluster, namespace),
            database_url,
            simulated_market,
            simulated_model,
            folder,
            worker_port=free_port(),
        )
        try:
            yield stage
        finally:
            stage.end_operators()
            _let_go(stage)


def _let_go(stage: Stage) -> None:
    """Take finalizers off, so that the namespaces can go although no operator is there any more."""
    path = f"/apis/fleetagent.dev/v1alpha1/namespaces/{stage.namespace}/fleetagents"
    for item in stage.cluster.api.call("GET", path)["items"]:
        patch = '{"metadata":{"finalizers":null}}'
        name = item["metadata"]["name"]
        stage.cluster.kubectl("-n", stage.namespace, "patch", "fleetagent", name, "--type=merge", "-p", patch)
    stage.cluster.kubectl("delete", "namespace", stage.home, "--wait=false")


__all__ = ["ACCOUNT", "NAME", "Stage", "a_stage", "admit", "eventually"]
