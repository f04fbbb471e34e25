"""What `helm test` runs, against a real API server: it passes for a ready operator with its rights, and only then."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.rbac import operator_objects
from support.helm import Helm, as_list, the
from support.people import until_granted

ACCOUNT = "tested"


@contextmanager
def readyz(status: int) -> Iterator[str]:
    """The URL of something that answers /readyz as an operator does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/readyz"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def account_folder(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Path:
    """What a kubelet mounts: the token and the authority, of an account with the chart's rights in one namespace."""
    objects = operator_objects(namespace, ACCOUNT, (namespace,), "fleetagent")
    control_plane.kubectl("apply", "--filename=-", stdin=as_list(objects))
    until_granted(control_plane, f"system:serviceaccount:{namespace}:{ACCOUNT}", "list", namespace)
    token = control_plane.kubectl("create", "token", ACCOUNT, "--namespace", namespace)
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(control_plane.ca_path.read_bytes())
    return tmp_path


def run_test(
    control_plane: ControlPlane, account_folder: Path, ready_url: str, namespaces: list[str]
) -> subprocess.CompletedProcess[str]:
    """The container of the rendered pod, as a process on this machine."""
    objects = Helm().rendered("porep", "home", {"namespaces": namespaces}, hooks=True)
    (container,) = the(objects, "Pod")["spec"]["containers"]
    host, _, port = urlsplit(control_plane.server_url).netloc.partition(":")
    env = {each["name"]: each["value"] for each in container["env"]} | {
        "READY_URL": ready_url,
        "ACCOUNT_FOLDER": str(account_folder),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "DEADLINE_SECONDS": "0",
        "HTTPS_PROXY": "http://127.0.0.1:9",  # an operator's way to the internet is not the test's to the API server
        "PATH": os.environ["PATH"],
    }
    assert container["command"] == ["python3", "-c"]
    return subprocess.run(
        [sys.executable, "-c", *container["args"]], env=env, capture_output=True, text=True, check=False, timeout=60
    )


def test_it_passes_when_a_replica_is_ready_and_the_agents_may_be_listed(
    control_plane: ControlPlane, namespace: str, account_folder: Path
) -> None:
    with readyz(200) as url:
        done = run_test(control_plane, account_folder, url, [namespace])

    assert (done.returncode, done.stderr) == (0, "")


def test_it_fails_while_no_replica_is_ready(control_plane: ControlPlane, namespace: str, account_folder: Path) -> None:
    with readyz(503) as url:
        done = run_test(control_plane, account_folder, url, [namespace])

    assert done.returncode == 1
    assert f"{url}: HTTP Error 503" in done.stderr


def test_it_fails_when_nothing_listens(control_plane: ControlPlane, namespace: str, account_folder: Path) -> None:
    done = run_test(control_plane, account_folder, "http://127.0.0.1:9/readyz", [namespace])

    assert done.returncode == 1
    assert "Connection refused" in done.stderr


@pytest.mark.parametrize("watched", [["another"], []], ids=["a namespace without a role", "the whole cluster"])
def test_it_fails_without_the_right_to_list(
    control_plane: ControlPlane, account_folder: Path, watched: list[str]
) -> None:
    with readyz(200) as url:
        done = run_test(control_plane, account_folder, url, watched)

    assert done.returncode == 1
    assert "fleetagents?limit=1: HTTP Error 403" in done.stderr


def test_the_pod_asks_the_service_that_leads_to_ready_replicas_only() -> None:
    objects = Helm().rendered("porep", "home", hooks=True)
    (container,) = the(objects, "Pod")["spec"]["containers"]
    url = {each["name"]: each["value"] for each in container["env"]}["READY_URL"]
    service = the(objects, "Service", "porep-fleetagent-health")

    assert url == "http://porep-fleetagent-health.home/readyz"
    assert service["spec"]["ports"][0]["port"] == 80
    assert not service["spec"].get("publishNotReadyAddresses")
    assert service["spec"]["selector"].keys() == {
        "app.kubernetes.io/name",
        "app.kubernetes.io/instance",
    }
