"""How to reach an API server on this machine: kubeconfigs, and the few calls that we make ourselves."""

import base64
import http.client
import json
import ssl
from pathlib import Path
from typing import Any

import yaml

from fleetagent.dev.loopback import HOST

CALL_TIMEOUT_S = 10.0


class ApiError(Exception):
    """The API server said no; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class ApiServer:
    """JSON over TLS as one identity; for more than this, use a Kubernetes client with a kubeconfig."""

    def __init__(self, port: int, *, ca: Path, token: str) -> None:
        self.port = port
        self._context = ssl.create_default_context(cafile=ca)
        self._token = token

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer's JSON, or `ApiError`."""
        status, text = self._exchange(method, path, body)
        if status >= http.client.BAD_REQUEST:
            raise ApiError(status, _message(text))
        answer: dict[str, Any] = json.loads(text)
        return answer

    def ready(self) -> bool:
        """Whether it serves everything that it will serve."""
        try:
            return self._exchange("GET", "/readyz", None)[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def exists(self, path: str) -> bool:
        """Whether there is an object at this path."""
        return self._exchange("GET", path, None)[0] == http.client.OK

    def _exchange(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, str]:
        # Made anew each time: the servers of tests come and go, and no proxy from the environment gets between.
        connection = http.client.HTTPSConnection(HOST, self.port, context=self._context, timeout=CALL_TIMEOUT_S)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        try:
            connection.request(method, path, body=json.dumps(body) if body is not None else None, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()


def write_kubeconfig(path: Path, *, server_url: str, ca: Path, user: str, token: str, namespace: str) -> Path:
    """A kubeconfig of one cluster and one user that needs no other file; readable by us alone."""
    cluster = {"server": server_url, "certificate-authority-data": base64.b64encode(ca.read_bytes()).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user, "namespace": namespace}}],
        "current-context": "local",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]
