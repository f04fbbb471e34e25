"""A real Kubernetes API on this machine, for the demo and the tests: started in seconds, gone without a trace."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from fleetagent.dev.apiserver import ApiServer, write_kubeconfig
from fleetagent.dev.binaries import Binaries, find_binaries, to_stderr
from fleetagent.dev.certificates import Credentials, write_credentials
from fleetagent.dev.closing import Closing
from fleetagent.dev.loopback import HOST, on_a_free_port
from fleetagent.dev.servers import Servers

READY_WITHIN_S = 60.0
KUBECTL_TIMEOUT_S = 60.0
TOKEN_LIFETIME = timedelta(days=7)  # longer than anybody leaves a demo running

ETCD_SOCKET = "etcd.sock:0"  # in the folder, which is ours alone: no port, and no other user reads our Secrets
NOWHERE = "http://127.0.0.1:1"  # etcd wants an address for members that it will never have

CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
)

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


class KubectlError(Exception):
    """kubectl failed; the message is what it said."""


class ControlPlane(Closing):
    """etcd, an API server with RBAC, and the controllers that namespaces, owners and ServiceAccounts need."""

    def __init__(self, servers: Servers, binaries: Binaries, credentials: Credentials, port: int) -> None:
        self._servers = servers
        self._binaries = binaries
        self._credentials = credentials
        self.server_url = f"https://{HOST}:{port}"
        self.api = ApiServer(port, ca=credentials.ca, token=credentials.admin_token)
        self.kubeconfig = self._write_kubeconfig("admin", credentials.admin_token, "default")

    @classmethod
    def start(
        cls,
        *,
        folder: Path | None = None,
        audit: bool = False,
        binaries: Binaries | None = None,
        progress: Callable[[str], None] = to_stderr,
    ) -> Self:
        """Return once it serves. All of it lives in `folder`, by default a temporary one, and is removed at the end."""
        binaries = binaries or find_binaries(progress=progress)
        servers = Servers.open("controlplane", folder=folder)
        try:
            credentials = write_credentials(servers.folder / "credentials")
            _start_etcd(servers, binaries)
            port = on_a_free_port(lambda port: _start_apiserver(servers, binaries, credentials, port, audit=audit))
            control_plane = cls(servers, binaries, credentials, port)
            control_plane._start_controller_manager()
        except BaseException:
            servers.close()
            raise
        return control_plane

    @property
    def folder(self) -> Path:
        """Where data, credentials and logs are until the end."""
        return self._servers.folder

    @property
    def ca_path(self) -> Path:
        """The certificate authority of the API server."""
        return self._credentials.ca

    @property
    def admin_token(self) -> str:
        """A bearer token that may do everything."""
        return self._credentials.admin_token

    @property
    def audit_log(self) -> Path:
        """A JSON object a line for each request served; only when started with `audit=True`."""
        return self.folder / "audit.log"

    def kubeconfig_for(self, service_account: str, namespace: str, *, lifetime: timedelta = TOKEN_LIFETIME) -> Path:
        """A kubeconfig with a token of this ServiceAccount, which must exist: it may do what RBAC lets it do."""
        token = self.token_for(service_account, namespace, lifetime=lifetime)
        return self._write_kubeconfig(f"{namespace}.{service_account}", token, namespace)

    def token_for(self, service_account: str, namespace: str, *, lifetime: timedelta = TOKEN_LIFETIME) -> str:
        """A token of this ServiceAccount, as `kubectl create token` gives it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        asked = {"expirationSeconds": int(lifetime.total_seconds())}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked}
        return str(self.api.call("POST", path, request)["status"]["token"])

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """What kubectl prints, as the admin or with another kubeconfig; `KubectlError` with its complaint."""
        cache = f"--cache-dir={self.folder / 'kubectl-cache'}"  # not in the home folder: ports are used again
        command: list[str | Path] = [
            self._binaries.kubectl,
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            cache,
            *arguments,
        ]
        try:
            done = subprocess.run(
                command,
                input=stdin or "",
                capture_output=True,
                text=True,
                check=True,
                timeout=KUBECTL_TIMEOUT_S,
                env={**os.environ, "KUBERC": "off"},
            )
        except subprocess.CalledProcessError as error:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {error.stderr.strip()}") from error
        return done.stdout

    @contextmanager
    def without_apiserver(self) -> Iterator[None]:
        """For the time of a block; afterwards one that keeps no audit log serves the same, at the same port."""
        self._servers.stop("kube-apiserver")
        try:
            yield
        finally:
            _start_apiserver(self._servers, self._binaries, self._credentials, self.api.port, audit=False)

    def close(self) -> None:
        """End everything and remove the folder; harmless when done twice."""
        self._servers.close()

    def _write_kubeconfig(self, user: str, token: str, namespace: str) -> Path:
        path = self.folder / f"{user}.kubeconfig"
        return write_kubeconfig(
            path, server_url=self.server_url, ca=self.ca_path, user=user, token=token, namespace=namespace
        )

    def _start_controller_manager(self) -> None:
        token = self._credentials.controller_manager_token
        arguments: dict[str, Any] = {
            "kubeconfig": self._write_kubeconfig("kube-controller-manager", token, "kube-system"),
            "controllers": ",".join(CONTROLLERS),
            "service-account-private-key-file": self._credentials.service_account_key,
            "root-ca-file": self.ca_path,
            "leader-elect": "false",
            "secure-port": "0",
        }
        self._servers.start("kube-controller-manager", _argv(self._binaries.kube_controller_manager, arguments))
        at_work = "/api/v1/namespaces/default/serviceaccounts/default"  # its first deed
        self._servers.wait_for("kube-controller-manager", lambda: self.api.exists(at_work), within_s=READY_WITHIN_S)


def _start_etcd(servers: Servers, binaries: Binaries) -> None:
    arguments = {
        "name": "only",
        "data-dir": servers.folder / "etcd",
        "unsafe-no-fsync": "true",
        "listen-client-urls": f"unix://{ETCD_SOCKET}",
        "advertise-client-urls": NOWHERE,
        "listen-peer-urls": "unix://peer.sock:0",
        "initial-advertise-peer-urls": NOWHERE,
        "initial-cluster": f"only={NOWHERE}",
        "log-level": "warn",
    }
    servers.start("etcd", _argv(binaries.etcd, arguments))
    servers.wait_for("etcd", (servers.folder / ETCD_SOCKET).exists, within_s=READY_WITHIN_S)


def _start_apiserver(servers: Servers, binaries: Binaries, credentials: Credentials, port: int, *, audit: bool) -> int:
    arguments: dict[str, Any] = {
        "etcd-servers": f"unix://{ETCD_SOCKET}",
        "bind-address": HOST,
        "advertise-address": HOST,
        "secure-port": port,
        "tls-cert-file": credentials.serving_certificate,
        "tls-private-key-file": credentials.serving_key,
        "authorization-mode": "RBAC",
        "token-auth-file": credentials.tokens,
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": credentials.service_account_key,
        "service-account-signing-key-file": credentials.service_account_key,
        "service-cluster-ip-range": "10.0.0.0/24",
        "endpoint-reconciler-type": "none",  # there are no pods that would look for us
    }
    if audit:
        policy = servers.folder / "audit-policy.yaml"
        policy.write_text(AUDIT_POLICY)
        arguments |= {"audit-policy-file": policy, "audit-log-path": servers.folder / "audit.log"}
    servers.start("kube-apiserver", _argv(binaries.kube_apiserver, arguments))
    api = ApiServer(port, ca=credentials.ca, token=credentials.admin_token)
    servers.wait_for("kube-apiserver", api.ready, within_s=READY_WITHIN_S)
    return port


def _argv(binary: Path, arguments: dict[str, Any]) -> list[str]:
    return [str(binary), *(f"--{name}={value}" for name, value in arguments.items())]
