"""A release of the chart on a real cluster, seen as its administrator sees it: through kubectl and helm."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Json = dict[str, Any]

REPOSITORY = Path(__file__).parents[2]
TRY_OUT = REPOSITORY / "examples" / "kind"
CHART = REPOSITORY / "charts" / "fleetagent"
RELEASE, HOME, AGENTS, NAME = "fleetagent", "fleetagent-system", "fleet", "porep"
MINE = f"app.kubernetes.io/instance={RELEASE}"
OPERATORS = f"app.kubernetes.io/name=fleetagent,{MINE}"
PATIENCE = "3m"


@dataclass(frozen=True, slots=True)
class Release:
    """The installation of `examples/kind/install.sh`, and what is done to it."""

    helm_path: str
    image: str
    """repository:tag, as it was built."""

    @property
    def next_image(self) -> str:
        """The same with another label: another image, as a new version would be."""
        return f"{self.image}-next"

    # --- commands ---

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What it prints; the test fails with what it says when it fails."""
        return told("kubectl", *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """In the release's namespace."""
        return told(self.helm_path, "--namespace", HOME, *arguments)

    def upgrade(self, *arguments: str, image: str, timeout: str = PATIENCE) -> str:
        """`helm upgrade --wait` to this image, with the values of the example and these."""
        repository, _, tag = image.rpartition(":")
        chosen = f"image.repository={repository},image.tag={tag}"
        values = ("--values", str(TRY_OUT / "values.yaml"), "--set-string", chosen)
        waiting = ("--wait", "--timeout", timeout)
        return self.helm("upgrade", "--install", RELEASE, str(CHART), *values, *waiting, *arguments)

    def annotate(self, **annotations: str) -> None:
        """As a person does; underscores become dashes."""
        pairs = [f"fleetagent.dev/{name.replace('_', '-')}={value}" for name, value in annotations.items()]
        self.kubectl("-n", AGENTS, "annotate", "--overwrite", "fleetagent", NAME, *pairs)

    # --- what is there ---

    def get(self, *arguments: str) -> Json:
        """The object, or the list, as JSON."""
        found: Json = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return found

    def exists(self, kind: str, name: str, *arguments: str) -> bool:
        """Whether there is such an object."""
        return bool(self.kubectl("get", kind, name, *arguments, "--ignore-not-found", "--output=name").strip())

    def operators(self) -> list[Json]:
        """The operator's pods that are not on their way out."""
        pods = self.get("pods", "-n", HOME, "-l", OPERATORS)["items"]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def status(self) -> Json:
        """The agent's."""
        found: Json = self.get("fleetagent", NAME, "-n", AGENTS).get("status", {})
        return found

    def condition(self, kind: str) -> Json:
        """One condition; empty while it is not there."""
        return next((c for c in self.status().get("conditions", []) if c["type"] == kind), {})

    def rows(self, query: str) -> list[list[str]]:
        """What the database says."""
        psql = ("psql", "postgresql://postgres:fleetagent@127.0.0.1/postgres", "-At", "-c", query)
        answer = self.kubectl("-n", HOME, "exec", "deployment/postgres", "--", *psql)
        return [line.split("|") for line in answer.splitlines()]

    def market(self) -> Json:
        """Everything that the simulated market knows, its counters too."""
        return self._simulator("marketplace")

    def model(self) -> Json:
        """What the simulated model counted."""
        return self._simulator("model")

    def _simulator(self, service: str) -> Json:
        path = f"/api/v1/namespaces/{HOME}/services/{service}:http/proxy/_sim/state"
        found: Json = json.loads(self.kubectl("get", "--raw", path))
        return found

    # --- stories ---

    def wait_for(self, true: Callable[[], Any], what: str, within_s: float = 60) -> float:
        """Wait for a state, with a limit; how long it took."""
        since = time.monotonic()
        while not true():
            if time.monotonic() > since + within_s:
                pytest.fail(f"not within {within_s:g} s: {what}")
            time.sleep(0.2)
        return time.monotonic() - since

    def served_a_request(self, value: str, within_s: float = 60) -> float:
        """Ask for a run and wait until it has ended; how long that took."""
        before = self.status().get("lastRunID", 0)
        self.annotate(requested_at=value)

        def served() -> bool:
            status = self.status()
            return bool(status.get("lastHandledRequest") == value and status["lastRunID"] > before)

        return self.wait_for(served, f"the request {value!r} is served", within_s)

    def check_books(self) -> None:
        """Each live machine is known, none was launched twice, and no request to the model was malformed."""

        def agree() -> bool:
            live = {m["label"] for m in self.market()["machines"] if m.get("destroyed_at") is None}
            known = {row[0] for row in self.rows("SELECT label FROM instances WHERE phase NOT IN ('gone', 'failed')")}
            return live == known

        self.wait_for(agree, "market and ledger agree")
        labels = [machine["label"] for machine in self.market()["machines"]]
        assert len(labels) == len(set(labels)), "two machines for one intent"
        assert self.model()["violations"] == 0


def done(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command that has ended, in whatever way."""
    return subprocess.run(command, input=stdin or "", capture_output=True, text=True, check=False, timeout=270)


def told(*command: str, stdin: str | None = None) -> str:
    """Standard output of a command that succeeds."""
    ended = done(*command, stdin=stdin)
    if ended.returncode:
        said = f"{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
        pytest.fail(f"{' '.join(command)}\nended with {ended.returncode}:\n{said}")
    return ended.stdout
