"""How `kubectl fleetagent` finds the operator, gets there and signs in: on a real API server, with real rights."""

import http.server
import json
import os
import signal
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest
import yaml

from fleetagent.dev.controlplane import ControlPlane
from support.cluster import eventually
from support.manifests import a_manifest
from support.people import READS, a_person
from support.terminals import Person, door_of, opened, with_token

LABELS = {"app.kubernetes.io/name": "fleetagent", "app.kubernetes.io/component": "web"}
POD = {"app.kubernetes.io/name": "fleetagent", "app.kubernetes.io/instance": "fa"}
RUN = {
    "runID": 7,
    "sessionID": 1,
    "state": "finished",
    "triggers": ["Request"],
    "startedAt": "2026-11-30T12:00:00Z",
    "finishedAt": "2026-11-30T12:00:04Z",
    "outcome": "Held",
    "summary": "holds",
    "quiet": False,
    "modelCalls": 1,
    "tokensIn": 1,
    "tokensOut": 1,
    "tokensCached": 0,
    "tokensEstimated": False,
    "usd": "0.00",
    "actions": 0,
    "refusals": 0,
}


class Api(http.server.ThreadingHTTPServer):
    """Answers every question with one run, and keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.shown: list[str] = []


class Answering(http.server.BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        self.server.shown.append(self.headers["Authorization"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"items": [RUN]}).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def kubectl(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """There is no kubelet behind the API server: instead of kubectl, a script that says that it forwards."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "kubectl"
    script.write_text(
        f"#!/bin/sh\necho $$ \"$@\" >> {folder}/asked\necho 'Forwarding from 127.0.0.1:{api.server_port} -> 8080'\n"
        "exec sleep 60\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / "asked"


def a_service(cluster: ControlPlane, namespace: str, name: str = "fleetagent-web") -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    metadata = {"name": name, "namespace": namespace, "labels": LABELS}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": POD, "ports": ports}}
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(service))


def a_pod(cluster: ControlPlane, namespace: str) -> None:
    """One that runs, as far as the API server knows."""
    container = {"name": "operator", "image": "x", "env": [{"name": "SOME_KEY", "value": "hunter22"}]}
    spec = {"containers": [{**container, "ports": [{"name": "web", "containerPort": 8080}]}]}
    metadata = {"name": "fa-1", "namespace": namespace, "labels": POD}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(pod))
    path = f"/api/v1/namespaces/{namespace}/pods/fa-1/status"
    cluster.api.call("PATCH", path, {"status": {"phase": "Running"}})


@pytest.fixture
def service(control_plane: ControlPlane, namespace: str) -> str:
    """The namespace of the only installation, which is down: what other tests have left would be found as well."""
    control_plane.kubectl("delete", "service", "-A", "-l", "app.kubernetes.io/component=web")
    a_service(control_plane, namespace)
    return namespace


@pytest.fixture
def installed(control_plane: ControlPlane, service: str) -> str:
    a_pod(control_plane, service)
    return service


@pytest.fixture
def admin(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Person:
    return with_token(control_plane, control_plane.admin_token, namespace, tmp_path)


def test_the_operator_is_found_forwarded_to_and_shown_the_callers_token_and_kubectl_ends_with_it(
    control_plane: ControlPlane, installed: str, admin: Person, api: Api, kubectl: Path
) -> None:
    runs = admin.types("runs", "porep", "-o", "json").json["items"]

    assert runs == [RUN]
    assert api.shown == [f"Bearer {control_plane.admin_token}"]
    number, *asked = kubectl.read_text().split()
    assert {f"--namespace={installed}", "port-forward", "service/fleetagent-web", ":80", "--context=local"} <= set(
        asked
    )
    assert control_plane.admin_token not in kubectl.read_text()
    assert not Path(f"/proc/{number}").exists()


def test_several_operators_are_named_and_one_is_taken_by_its_namespace(
    control_plane: ControlPlane, installed: str, admin: Person, kubectl: Path
) -> None:
    a_service(control_plane, installed, "second")

    assert f"there are several operators ({installed}/fleetagent-web, {installed}/second)" in (
        admin.types("runs", "porep").sentence
    )
    control_plane.kubectl("-n", installed, "delete", "service", "second")
    assert admin.types("runs", "porep", "--operator-namespace", installed).code == 0
    assert "no operator is found in namespace default" in (
        admin.types("runs", "porep", "--operator-namespace", "default").sentence
    )
    assert kubectl.exists()


def test_who_may_not_look_everywhere_is_told_which_flag_helps(
    control_plane: ControlPlane, installed: str, tmp_path: Path
) -> None:
    reader = a_person(control_plane, installed, "reader", verbs=READS, namespaces=(installed,))
    person = with_token(control_plane, reader, installed, tmp_path)

    assert person.types("runs", "porep").sentence == (
        "you may not look for the operator in all namespaces: name its namespace by --operator-namespace, "
        "or the page's address by --server"
    )
    assert 'cannot list resource "services"' in (
        person.types("runs", "porep", "--operator-namespace", installed).sentence
    )


def test_an_operator_without_a_pod_is_down(service: str, admin: Person) -> None:
    assert f"the operator is down: service {service}/fleetagent-web has no pod that runs" == (
        admin.types("runs", "porep").sentence
    )


def test_kubectls_own_complaint_is_passed_on(
    control_plane: ControlPlane, installed: str, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = control_plane._binaries.kubectl.parent
    monkeypatch.setenv("PATH", f"{real}{os.pathsep}{os.environ['PATH']}")

    sentence = admin.types("runs", "porep").sentence

    assert sentence.startswith(f"no port-forward to service {installed}/fleetagent-web: ")
    assert "fa-1 does not have a host assigned" in sentence


def test_without_kubectl_it_is_asked_for(installed: str, admin: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert installed
    assert "kubectl is not on the PATH" in admin.types("runs", "porep").sentence


def test_a_report_holds_the_operators_pods_without_the_values_of_their_environment(
    control_plane: ControlPlane, installed: str, admin: Person, kubectl: Path, tmp_path: Path
) -> None:
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(a_manifest(namespace=installed)))
    to = tmp_path / "report.tar.gz"

    typed = admin.types("report", "porep", "--to", str(to))

    assert typed.code == 0, typed.err
    with tarfile.open(to) as archive:
        files = {m.name.partition("/")[2]: archive.extractfile(m).read().decode() for m in archive.getmembers()}  # type: ignore[union-attr]  # all are files
    (pod,) = yaml.safe_load(files["operator.yaml"])
    assert (pod["name"], pod["phase"], pod["containers"][0]["env"]) == ("fa-1", "Running", ["SOME_KEY"])
    assert "logs/fa-1.log" in files
    assert "Request" in files["runs.json"]
    assert yaml.safe_load(files["versions.yaml"])["kubernetes"].startswith("v1.")
    assert "hunter22" not in "".join(files.values())
    assert kubectl.exists()


def test_there_is_nothing_to_export_before_the_first_session(installed: str, admin: Person, kubectl: Path) -> None:
    """An agent that the operator has not met yet has none."""
    assert f"{installed}/porep has no session yet" in admin.types("conversation", "porep", "--export").sentence
    assert kubectl.exists()


def test_who_watches_shows_the_token_to_nobody_once_the_port_forward_has_ended(
    installed: str, admin: Person, api: Api, kubectl: Path
) -> None:
    """Another user of this machine may listen at its port by then; here, the same server goes on."""
    command = admin.command("runs", "porep", "--watch", "-o", "json")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: len(api.shown) > 0, "it has asked once")
        os.kill(int(kubectl.read_text().split()[0]), signal.SIGKILL)
        shown = len(api.shown)
        try:
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()

    assert installed
    assert (process.returncode, len(api.shown)) == (1, shown)
    assert said.splitlines()[-1].startswith("error: the port-forward has ended")


# --- tokens ---


def without_token(person: Person, **user: str) -> Person:
    """The same kubeconfig with another way to log in."""
    config = yaml.safe_load(person.kubeconfig.read_text())
    config["users"][0]["user"] = user
    person.kubeconfig.write_text(yaml.safe_dump(config))
    return person


def test_who_has_no_token_is_told_how_to_get_one(installed: str, admin: Person) -> None:
    assert installed
    assert (
        "--as-service-account" in without_token(admin).types("runs", "porep", "--server", "http://127.0.0.1:1").sentence
    )


def test_a_service_accounts_fresh_token_is_shown_in_place_of_ones_own(
    control_plane: ControlPlane, installed: str, admin: Person, api: Api, kubectl: Path
) -> None:
    a_person(control_plane, installed, "reader", verbs=READS, namespaces=(installed,))

    assert admin.types("runs", "porep", "--as-service-account", "reader").code == 0
    assert "not found" in admin.types("runs", "porep", "--as-service-account", f"{installed}/nobody").sentence

    (shown,) = api.shown
    assert shown.startswith("Bearer ey")
    assert control_plane.admin_token not in shown
    assert kubectl.exists()


def test_a_plugin_of_the_kubeconfig_gives_the_token_and_its_failure_is_one_sentence(
    control_plane: ControlPlane, installed: str, admin: Person, tmp_path: Path
) -> None:
    def with_plugin(script: str) -> Person:
        plugin = tmp_path / "credentials"
        plugin.write_text(f"#!/bin/sh\n{script}\n")
        plugin.chmod(0o755)
        config = yaml.safe_load(admin.kubeconfig.read_text())
        version = "client.authentication.k8s.io/v1"
        config["users"][0]["user"] = {
            "exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
        }
        admin.kubeconfig.write_text(yaml.safe_dump(config))
        return admin

    given: dict[str, Any] = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    given["status"] = {"token": control_plane.admin_token}

    assert "no FleetAgents here" in with_plugin(f"echo '{json.dumps(given)}'").types("list").out
    assert "way to log in has failed: exec: process returned 3. please log in" in (
        with_plugin("echo please log in >&2; exit 3").types("list").sentence
    )
    assert installed


# --- open ---


def test_open_hands_the_token_to_the_first_who_asks_and_no_command_line_shows_it(
    control_plane: ControlPlane, installed: str, admin: Person, api: Api, kubectl: Path
) -> None:
    with opened(admin, "porep") as process:
        door = door_of(process)
        lines = b"".join(each.read_bytes() for each in _command_lines(process.pid))
        wrong = httpx.get(f"{door}x", trust_env=False)
        answer = httpx.get(door, trust_env=False)
        forwards = int(kubectl.read_text().split()[0])
        assert Path(f"/proc/{forwards}").exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130

    target = urlsplit(answer.headers["location"])
    assert (wrong.status_code, answer.status_code) == (404, 303)
    assert (target.hostname, target.port, target.path) == ("127.0.0.1", api.server_port, "/login")
    assert parse_qs(target.query) == {"next": [f"/agents/{installed}/porep"]}
    assert unquote(target.fragment) == f"token={control_plane.admin_token}"
    assert control_plane.admin_token.encode() not in lines
    eventually(lambda: not Path(f"/proc/{forwards}").exists(), "kubectl has ended")


def test_open_says_so_when_the_port_forward_ends(installed: str, admin: Person, kubectl: Path) -> None:
    with opened(admin) as process:
        httpx.get(door_of(process), trust_env=False)
        os.kill(int(kubectl.read_text().split()[0]), signal.SIGKILL)
        _, said = process.communicate(timeout=20)

    assert installed
    assert process.returncode == 1
    assert said.splitlines()[-1].startswith("error: the port-forward has ended")


def _command_lines(pid: int) -> Iterator[Path]:
    """Of a process and of its children."""
    yield Path(f"/proc/{pid}/cmdline")
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from (Path(f"/proc/{child}/cmdline") for child in (task / "children").read_text().split())
