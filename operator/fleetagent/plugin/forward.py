"""The way to the operator's page and API that has no address outside: `kubectl port-forward`, while it is needed."""

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from fleetagent.errors import CannotStart, NotAllowed, TryLater
from fleetagent.plugin.apiserver import Json, part
from fleetagent.plugin.failures import NotFound
from fleetagent.plugin.person import Person

READY_WITHIN_SECONDS = 30.0
LOOKS_AGAIN_SECONDS = 0.02
ENDS_WITHIN_SECONDS = 5.0
COMPONENT = "app.kubernetes.io/component=web"
CHART = "fleetagent-"
LISTENS = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")
NAME_IT = "name its namespace by --operator-namespace, or the page's address by --server"


@dataclass(frozen=True, slots=True)
class Service:
    """The Service of an installation's page and API."""

    namespace: str
    name: str
    port: int
    selector: str
    """Of its pods."""


def forwarded_from(person: Person) -> Service:
    """The one installation that is found; a sentence that names the flag when there is none, or more than one."""
    namespace: str | None = person.args.operator_namespace
    where = "" if namespace is None else f"/namespaces/{part(namespace)}"
    try:
        services = person.kubernetes.everything(f"/api/v1{where}/services", {"labelSelector": COMPONENT})
    except NotAllowed as error:
        if namespace is not None:
            raise
        raise NotAllowed(f"you may not look for the operator in all namespaces: {NAME_IT}") from error
    found = [_service(each) for each in services if _is_ours(each)]
    if not found:
        place = "any namespace" if namespace is None else f"namespace {namespace}"
        raise NotFound(f"no operator is found in {place}: {NAME_IT}")
    if len(found) > 1:
        names = ", ".join(f"{each.namespace}/{each.name}" for each in found)
        raise NotFound(f"there are several operators ({names}): {NAME_IT}")
    if namespace is None:  # whoever may make Services in some namespace could have made this one
        person.note(f"by the operator in namespace {found[0].namespace}; --operator-namespace names another one")
    return found[0]


@contextlib.contextmanager
def forwarded(person: Person) -> Iterator[tuple[str, Callable[[], bool]]]:
    """The base URL on this machine, while the block runs; and whether the way there still stands."""
    with port_forward(person, forwarded_from(person)) as (base, process):
        yield base, lambda: process.poll() is None


def _must_run(person: Person, service: Service) -> None:
    """Otherwise kubectl would wait for a pod that never comes."""
    path = f"/api/v1/namespaces/{part(service.namespace)}/pods"
    pods = person.kubernetes.everything(path, {"labelSelector": service.selector})
    if not any((each.get("status") or {}).get("phase") == "Running" for each in pods):
        raise TryLater(f"the operator is down: service {service.namespace}/{service.name} has no pod that runs")


@contextlib.contextmanager
def port_forward(person: Person, service: Service) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The base URL on this machine, and the process by which it is there."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise CannotStart("kubectl is not on the PATH, and a port-forward needs it: install it, or use --server")
    _must_run(person, service)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [kubectl, *_as_whom(person), *_where(service)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us; we end it
        )
        try:
            yield f"http://127.0.0.1:{_port(process, said, service)}", process
        finally:
            process.terminate()
            try:
                process.wait(ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _as_whom(person: Person) -> list[str]:
    login = person.login
    return [f"--context={login.context}", *([f"--kubeconfig={login.file}"] if login.file else [])]


def _where(service: Service) -> list[str]:
    pods = "--pod-running-timeout=10s"
    return [f"--namespace={service.namespace}", "port-forward", pods, f"service/{service.name}", f":{service.port}"]


def _port(process: "subprocess.Popen[bytes]", said: IO[bytes], service: Service) -> int:
    """Wait until it listens; what it complains about otherwise."""
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while True:
        ended = process.poll() is not None
        said.seek(0)
        text = said.read().decode(errors="replace")
        if found := LISTENS.search(text):
            return int(found[1])
        if ended or time.monotonic() > deadline:
            words = " ".join(text.split()).removeprefix("error: ") or "it says nothing"
            raise TryLater(
                f"no port-forward to service {service.namespace}/{service.name}: {words}; does the operator run?"
            )
        time.sleep(LOOKS_AGAIN_SECONDS)


def _is_ours(service: Json) -> bool:
    labels = service["metadata"].get("labels") or {}
    chart = str(labels.get("helm.sh/chart", ""))
    return labels.get("app.kubernetes.io/name") == "fleetagent" or chart.startswith(CHART)


def _service(service: Json) -> Service:
    meta = service["metadata"]
    selector = ",".join(f"{name}={value}" for name, value in (service["spec"].get("selector") or {}).items())
    return Service(meta["namespace"], meta["name"], int(service["spec"]["ports"][0]["port"]), selector)
