"""What `kubectl fleetagent` does when somebody else writes between its look and its word: on a real API server."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from fleetagent.dev.apiserver import ApiError
from fleetagent.dev.controlplane import ControlPlane
from support.manifests import Json, a_manifest
from support.terminals import Person, Typed, with_token

APPROVE, MESSAGE = "fleetagent.dev/approve", "fleetagent.dev/message"


class Between(http.server.ThreadingHTTPServer):
    """Passes everything on to the API server; before the first patch it lets something else happen."""

    def __init__(self, cluster: ControlPlane, happens: Callable[[], None]) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.cluster = cluster
        self.happens = happens
        self.patches = 0


class Passing(http.server.BaseHTTPRequestHandler):
    server: Between

    def do_GET(self) -> None:
        self._pass_on(None)

    def do_PATCH(self) -> None:
        self.server.patches += 1
        if self.server.patches == 1:
            self.server.happens()
        self._pass_on(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _pass_on(self, body: Json | None) -> None:
        status, answer = 200, {}
        try:
            answer = self.server.cluster.api.call(self.command, self.path, body)
        except ApiError as error:
            status, answer = error.status, {"message": str(error)}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def agent(control_plane: ControlPlane, namespace: str) -> str:
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(a_manifest(namespace=namespace)))
    return f"/apis/fleetagent.dev/v1alpha1/namespaces/{namespace}/fleetagents/porep"


@contextmanager
def interrupted(
    cluster: ControlPlane, namespace: str, folder: Path, happens: Callable[[], None]
) -> Iterator[tuple[Person, Between]]:
    with Between(cluster, happens) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        yield with_token(cluster, "any", namespace, folder, address), server
        server.shutdown()


def annotated(cluster: ControlPlane, agent: str, name: str, value: str) -> None:
    cluster.api.call("PATCH", agent, {"metadata": {"annotations": {name: value}}})


def said(cluster: ControlPlane, agent: str, name: str) -> str:
    value: str = cluster.api.call("GET", agent)["metadata"]["annotations"][name]
    return value


def test_an_approval_that_came_in_between_is_kept_beside_ones_own(
    control_plane: ControlPlane, namespace: str, agent: str, tmp_path: Path
) -> None:
    def other() -> None:
        annotated(control_plane, agent, APPROVE, "action-1")

    with interrupted(control_plane, namespace, tmp_path, other) as (person, server):
        typed = person.types("approve", "porep", "action-2")

    assert typed.code == 0, typed.err
    assert server.patches == 2
    assert said(control_plane, agent, APPROVE) == "action-1,action-2"


def test_a_message_that_came_in_between_is_not_overwritten_unheard(
    control_plane: ControlPlane, namespace: str, agent: str, tmp_path: Path
) -> None:
    def other() -> None:
        annotated(control_plane, agent, MESSAGE, "theirs")

    with interrupted(control_plane, namespace, tmp_path, other) as (person, _):
        typed: Typed = person.types("message", "porep", "ours", "--wait", "0s")

    assert "('theirs') is not confirmed by the operator" in typed.sentence
    assert said(control_plane, agent, MESSAGE) == "theirs"
