"""What keeps the operator from starting is one clear line and exit code 1; it never shows a password."""

import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.ports import free_port
from support.processes import run, started
from support.stage import ACCOUNT, admit

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def kubeconfig(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """Of an account that may do what the operator must."""
    home = admit(control_plane, namespace)
    yield str(control_plane.kubeconfig_for(ACCOUNT, home))
    control_plane.kubectl("delete", "namespace", home, "--wait=false")


def password_in(url: str) -> str:
    """The secret part of a database URL."""
    return urlsplit(url).password or ""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "FLEETAGENT_DATABASE_URL is not set"),
        ({"FLEETAGENT_DATABASE_URL": "postgresql://u:pa55@w0rd@db/x"}, "written as %40 for @"),
    ],
)
def test_a_setting_that_is_missing_or_wrong_is_named_in_one_line(settings: dict[str, str], words: str) -> None:
    line = run("operator", **settings).line

    assert words in line
    assert "pa55" not in line
    assert "w0rd" not in line


def test_a_database_that_refuses_us_is_one_line(database_url: str) -> None:
    line = run("operator", FLEETAGENT_DATABASE_URL=database_url.replace("@", "no@")).line

    assert "password authentication failed" in line
    assert password_in(database_url) not in line


def test_without_a_cluster_the_operator_says_where_it_looked(database_url: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("clusters: [")

    assert "KUBECONFIG is not set" in run("operator", FLEETAGENT_DATABASE_URL=database_url).line
    line = run("operator", FLEETAGENT_DATABASE_URL=database_url, KUBECONFIG=str(broken)).line
    assert f"no Kubernetes API server is configured (KUBECONFIG is {broken})" in line


@pytest.mark.parametrize(
    ("server", "token", "words"),
    [(f"https://{NOWHERE}", None, "cannot be reached"), (None, "wrong", "it does not know us (401)")],
    ids=["unreachable", "wrong token"],
)
def test_an_api_server_that_cannot_be_used_is_one_line(
    database_url: str, kubeconfig: str, tmp_path: Path, server: str | None, token: str | None, words: str
) -> None:
    config = yaml.safe_load(Path(kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = server or config["clusters"][0]["cluster"]["server"]
    config["users"][0]["user"]["token"] = token or config["users"][0]["user"]["token"]
    other = tmp_path / "config"
    other.write_text(yaml.safe_dump(config))

    line = run("operator", FLEETAGENT_DATABASE_URL=database_url, KUBECONFIG=str(other)).line

    assert "the Kubernetes API server at https://127.0.0.1:" in line
    assert words in line


def test_an_account_without_the_charts_rules_is_told_so(database_url: str, kubeconfig: str) -> None:
    line = run("operator", FLEETAGENT_DATABASE_URL=database_url, KUBECONFIG=kubeconfig).line

    assert "it forbids us to list FleetAgents (403): apply the chart's roles and bindings" in line


def test_a_taken_port_is_named_by_its_setting(database_url: str, kubeconfig: str, namespace: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = run(
            "operator",
            FLEETAGENT_DATABASE_URL=database_url,
            KUBECONFIG=kubeconfig,
            FLEETAGENT_NAMESPACES=namespace,
            FLEETAGENT_WORKER_LISTEN=f"127.0.0.1:{free_port()}",
            FLEETAGENT_WEB_LISTEN=f"127.0.0.1:{free_port()}",
            FLEETAGENT_HEALTH_LISTEN=f"127.0.0.1:{port}",
        ).line

    assert f"FLEETAGENT_HEALTH_LISTEN: 127.0.0.1:{port} cannot be listened on: Address already in use" in line


def test_a_schema_that_is_newer_than_this_version_is_refused(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    line = run("operator", FLEETAGENT_DATABASE_URL=database_url).line

    assert "migrated by a newer fleetagent" in line
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_three_migrations_of_an_empty_database_at_once_all_succeed(postgres_server: EmbeddedPostgres) -> None:
    name = f"test_{secrets.token_hex(5)}"
    url = postgres_server.create_database(name)
    try:
        with (
            started("migrate", FLEETAGENT_DATABASE_URL=url) as one,
            started("migrate", FLEETAGENT_DATABASE_URL=url) as two,
            started("migrate", FLEETAGENT_DATABASE_URL=url) as three,
        ):
            ended = [(process.communicate(timeout=60)[1], process.returncode) for process in (one, two, three)]
        assert [code for _, code in ended] == [0, 0, 0], ended
        assert all("the database has schema" in stderr for stderr, _ in ended)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM agents").fetchone() == (0,)
    finally:
        postgres_server.drop_database(name)
