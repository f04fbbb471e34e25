"""Real servers for tests: one control plane and one Postgres a session, a fresh corner of them for each test."""

import gc
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleetagent.dev.binaries import Binaries, find_binaries
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres

CRD = Path(__file__).parents[2] / "crds" / "fleetagents.yaml"
TEMPLATE = "migrated"
CREATED_WITHIN_S = 30.0


def migrate(url: str) -> None:
    """Bring an empty database to the newest schema: done once, every test gets a copy."""
    from fleetagent.adapters.postgres.migrate import migrate_to_head  # noqa: PLC0415 - for those who need a database

    migrate_to_head(url)


def eventually(
    true: Callable[[], bool], what: str, *, within_s: float = CREATED_WITHIN_S, every_s: float = 0.02
) -> None:
    """Wait for a state, with a limit."""
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:g} s: {what}")
        time.sleep(every_s)


def binaries_with_progress(config: pytest.Config) -> Binaries:
    """Find or build the programs; a build takes minutes, so its progress goes past pytest's capture."""
    capture = config.pluginmanager.getplugin("capturemanager")

    def show(line: str) -> None:
        if capture is None:
            print(line, flush=True)  # noqa: T201
            return
        with capture.global_and_fixture_disabled():
            print(line, flush=True)  # noqa: T201

    return find_binaries(progress=show)


@contextmanager
def a_control_plane(*, audit: bool = False) -> Iterator[ControlPlane]:
    """A Kubernetes API with our resource, until the end of the block."""
    with ControlPlane.start(audit=audit) as running:
        running.kubectl("apply", "--server-side", "-f", str(CRD))
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/fleetagents.fleetagent.dev"
        eventually(lambda: bool(running.api.call("GET", path)["status"].get("conditions")), "the CRD has conditions")
        running.kubectl("wait", "--for=condition=Established", "-f", str(CRD))
        yield running


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Shared by all tests: keep to a `namespace` of your own."""
    with a_control_plane(audit=True) as running:
        yield running


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a namespace that only this test knows, with its ServiceAccount `default`."""
    name = f"test-{secrets.token_hex(5)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    control_plane.api.call("POST", "/api/v1/namespaces", body)
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    eventually(lambda: control_plane.api.exists(account), f"{account} exists")
    yield name
    if control_plane.api.exists(f"/api/v1/namespaces/{name}"):
        control_plane.api.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """An empty Postgres, shared by all tests: take a `database_url` of your own."""
    with EmbeddedPostgres.start() as running:
        yield running


@pytest.fixture(scope="session")
def migrated_template(postgres_server: EmbeddedPostgres) -> str:
    """The name of a database with the newest schema and nothing in it."""
    migrate(postgres_server.create_database(TEMPLATE))
    return TEMPLATE


@pytest.fixture
def database_url(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    """The postgresql:// URL of a migrated database that only this test knows."""
    name = f"test_{secrets.token_hex(5)}"
    yield postgres_server.create_database(name, template=migrated_template)
    gc.collect()  # a connection that nobody gave back is this test's fault, not that of a later one
    postgres_server.drop_database(name)
