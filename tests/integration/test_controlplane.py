"""The control plane that we start ourselves: real, with RBAC, and gone when its owner is."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetagent.dev.apiserver import ApiError, ApiServer
from fleetagent.dev.controlplane import ControlPlane, KubectlError
from fleetagent.dev.loopback import HOST
from fleetagent.dev.servers import LOCK, PortTaken, Servers, remove_abandoned
from fleetagent.errors import CannotStart
from support.cluster import eventually

SOURCE_ROOT = Path(__file__).parents[2] / "operator"

OWNER = """
import os, signal, sys, json, threading
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
started = []
# In a thread that ends, as asyncio.to_thread may: the servers belong to the process, not to the thread.
thread = threading.Thread(target=lambda: started.extend([ControlPlane.start(), EmbeddedPostgres.start()]))
thread.start()
thread.join()
print(json.dumps([str(started[0].folder), started[0].server_url, started[1].url]), flush=True)
sys.stdin.read()
"""

OWNER_WITH_A_FORK = """
import os, signal
from fleetagent.dev.servers import Servers
servers = Servers.open("test")
pid = servers.start("sleeper", ["/bin/sleep", "600"])
fork = os.fork() or signal.pause()
print(servers.folder, pid, fork, flush=True)
signal.pause()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that has started servers and waits."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE_ROOT), "TMPDIR": "/tmp"}  # noqa: S108
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    )
    with process:
        yield process
        process.kill()


def test_the_api_server_is_the_version_that_go_mod_names(control_plane: ControlPlane) -> None:
    assert control_plane.api.call("GET", "/version")["gitVersion"] == "v1.36.3"


def test_kubectl_works_as_the_admin(control_plane: ControlPlane, namespace: str) -> None:
    assert namespace in control_plane.kubectl("get", "namespaces", "--output=name")


def test_what_kubectl_complains_about_is_in_the_error(control_plane: ControlPlane) -> None:
    with pytest.raises(KubectlError, match='namespaces "nowhere" not found'):
        control_plane.kubectl("get", "namespace", "nowhere")


def test_rbac_refuses_a_service_account_without_rights(control_plane: ControlPlane, namespace: str) -> None:
    kubeconfig = control_plane.kubeconfig_for("default", namespace)

    me = f"system:serviceaccount:{namespace}:default"
    with pytest.raises(KubectlError, match=f'User "{me}" cannot list resource "secrets"'):
        control_plane.kubectl("get", "secrets", kubeconfig=kubeconfig)


def test_rbac_grants_a_service_account_what_a_role_binding_says(control_plane: ControlPlane, namespace: str) -> None:
    kubeconfig = control_plane.kubeconfig_for("default", namespace)
    subject = f"--serviceaccount={namespace}:default"
    control_plane.kubectl("create", "rolebinding", "reads", "--clusterrole=view", subject, f"--namespace={namespace}")

    can_i = ("auth", "can-i", "list", "configmaps", "--quiet")
    eventually(lambda: _succeeds(control_plane, *can_i, kubeconfig=kubeconfig), "the role binding is in force")
    assert "kube-root-ca.crt" in control_plane.kubectl("get", "configmaps", kubeconfig=kubeconfig)
    assert not _succeeds(control_plane, "auth", "can-i", "list", "secrets", "--quiet", kubeconfig=kubeconfig)


def test_no_request_without_a_token_is_served(control_plane: ControlPlane) -> None:
    stranger = ApiServer(control_plane.api.port, ca=control_plane.ca_path, token="guessed")

    with pytest.raises(ApiError, match="401"):
        stranger.call("GET", "/api/v1/namespaces")


def test_a_deleted_namespace_goes_away_with_all_that_is_in_it(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "configmap", "content", f"--namespace={namespace}")

    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")

    eventually(lambda: not control_plane.api.exists(f"/api/v1/namespaces/{namespace}"), f"{namespace} is gone")


def test_an_owned_object_goes_away_with_its_owner(control_plane: ControlPlane, namespace: str) -> None:
    objects = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = control_plane.api.call("POST", objects, {"metadata": {"name": "owner"}})["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    control_plane.api.call("POST", objects, {"metadata": {"name": "owned", "ownerReferences": [reference]}})

    control_plane.api.call("DELETE", f"{objects}/owner")

    eventually(lambda: not control_plane.api.exists(f"{objects}/owned"), "the owned object is gone")


def test_the_audit_log_names_who_did_what(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("get", "secrets", f"--namespace={namespace}")

    entries = [json.loads(line) for line in control_plane.audit_log.read_text().splitlines()]
    mine = [
        e for e in entries if e["verb"] == "list" and e["requestURI"].startswith(f"/api/v1/namespaces/{namespace}/sec")
    ]
    assert [entry["user"]["username"] for entry in mine] == ["admin"]


def test_credentials_are_readable_by_their_owner_only(control_plane: ControlPlane) -> None:
    secret = [control_plane.kubeconfig, *(control_plane.folder / "credentials").iterdir()]

    assert {oct(path.stat().st_mode & 0o777) for path in secret} == {"0o600"}
    assert oct(control_plane.folder.stat().st_mode & 0o777) == "0o700"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda sent: sent.name)
def test_nothing_is_left_when_the_owner_is_killed(owner: subprocess.Popen[str], how: signal.Signals) -> None:
    folder, server_url, database_url = _what_it_started(owner)
    servers = _descendants(owner.pid)
    assert {"etcd", "kube-apiserver", "kube-controller", "postgres"} <= set(servers.values())

    owner.send_signal(how)
    owner.wait(timeout=10)

    eventually(lambda: not any(_alive(server) for server in servers), "all servers have ended", within_s=15)
    assert not _listening(server_url)
    assert not _listening(database_url)
    assert not Path(folder).exists()


def test_nothing_is_left_when_everything_in_the_owners_terminal_is_killed(owner: subprocess.Popen[str]) -> None:
    folder, _, _ = _what_it_started(owner)
    servers = _descendants(owner.pid)

    os.killpg(owner.pid, signal.SIGKILL)
    owner.wait(timeout=10)

    eventually(lambda: not any(_alive(server) for server in servers), "all servers have ended", within_s=15)
    assert not Path(folder).exists()


def test_a_fork_that_outlives_the_owner_does_not_keep_its_servers_alive() -> None:
    command = [sys.executable, "-c", OWNER_WITH_A_FORK]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE_ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        folder, sleeper, fork = owner.stdout.readline().split()
        owner.kill()
        try:
            eventually(lambda: not Path(folder).exists(), "the folder is gone", within_s=15)
            assert not _alive(int(sleeper))
        finally:
            os.kill(int(fork), signal.SIGKILL)


def test_servers_die_with_their_keeper_and_the_next_start_removes_the_folder(owner: subprocess.Popen[str]) -> None:
    folder, _, _ = _what_it_started(owner)
    servers = _descendants(owner.pid)
    keepers = [pid for pid in servers if _parent_and_name(pid)[0] == owner.pid]

    for pid in (*keepers, owner.pid):
        os.kill(pid, signal.SIGKILL)

    eventually(lambda: not any(_alive(server) for server in servers), "all servers have ended", within_s=15)
    assert Path(folder).exists()
    remove_abandoned(Path(folder).parent)
    assert not Path(folder).exists()


def test_a_folder_in_use_is_neither_removed_nor_taken(tmp_path: Path) -> None:
    with Servers.open("test", folder=tmp_path / "fleetagent-mine") as servers:
        remove_abandoned(tmp_path)

        assert servers.folder.exists()
        with pytest.raises(CannotStart, match="in use by another process"):
            Servers.open("test", folder=tmp_path / "fleetagent-mine")
    assert not (tmp_path / "fleetagent-mine").exists()


def test_a_folder_with_files_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(CannotStart, match="not empty"):
        Servers.open("test", folder=tmp_path)

    assert (tmp_path / "thesis.txt").exists()


def test_an_abandoned_folder_can_be_taken_over(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    (tmp_path / "etcd").mkdir()

    with Servers.open("test", folder=tmp_path) as servers:
        assert not (servers.folder / "etcd").exists()


def test_the_last_words_of_a_server_that_does_not_start_are_in_the_error() -> None:
    with Servers.open("test") as servers:
        servers.start("shell", ["/bin/sh", "-c", "echo the disk is on fire; exit 3"])

        with pytest.raises(CannotStart, match=r"shell ended with code 3:\nthe disk is on fire"):
            servers.wait_for("shell", lambda: False, within_s=10)


def test_a_server_that_is_not_ready_in_time_says_so() -> None:
    with Servers.open("test") as servers:
        servers.start("shell", ["/bin/sh", "-c", "echo thinking; exec sleep 60"])

        with pytest.raises(CannotStart, match=r"shell was not ready within 0\.2 s"):
            servers.wait_for("shell", lambda: False, within_s=0.2)


def test_a_taken_port_is_told_from_other_failures(control_plane: ControlPlane) -> None:
    taken = str(control_plane.api.port)
    listener = "import socket, sys; socket.socket().bind(('127.0.0.1', int(sys.argv[1])))"
    with Servers.open("test") as servers:
        servers.start("listener", [sys.executable, "-c", listener, taken])

        with pytest.raises(PortTaken):
            servers.wait_for("listener", lambda: False, within_s=10)


def test_a_missing_program_is_named() -> None:
    with Servers.open("test") as servers, pytest.raises(CannotStart, match="/no/such/program"):
        servers.start("ghost", ["/no/such/program"])


def _what_it_started(owner: subprocess.Popen[str]) -> tuple[str, str, str]:
    assert owner.stdout is not None
    folder, server_url, database_url = json.loads(owner.stdout.readline())
    return folder, server_url, database_url


def _succeeds(control_plane: ControlPlane, *arguments: str, kubeconfig: Path) -> bool:
    try:
        control_plane.kubectl(*arguments, kubeconfig=kubeconfig)
    except KubectlError:
        return False
    return True


def _descendants(ancestor: int) -> dict[int, str]:
    """The process ids and names of all that it started, and that those started."""
    processes = {int(entry.name): _parent_and_name(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    found: dict[int, str] = {}
    wave = {ancestor}
    while wave:
        wave = {pid for pid, (parent, _) in processes.items() if parent in wave}
        found |= {pid: processes[pid][1] for pid in wave}
    return found


def _parent_and_name(pid: int) -> tuple[int, str]:
    """Zeroes for a process that is gone or only waits to be forgotten."""
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return 0, ""
    state, parent = after.split()[:2]
    return (0, "") if state == "Z" else (int(parent), before.partition("(")[2])


def _alive(pid: int) -> bool:
    return _parent_and_name(pid) != (0, "")


def _listening(url: str) -> bool:
    port = int(url.rpartition(":")[2].partition("/")[0])
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
