"""Migrations under way: several at once, one killed in the middle, old rows, and back again."""

import multiprocessing
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from fleetagent.adapters.postgres.migrate import migrate_to, migrate_to_head
from fleetagent.adapters.postgres.revisions import head
from fleetagent.adapters.postgres.tables import metadata
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.errors import CannotStart
from support.versions import first_migration_before

FORK = multiprocessing.get_context("fork")
"""Processes that need no time to start: Alembic can do one migration a process, and these are to meet."""
ROUNDS = 20
LATER_EACH_TIME_S = 0.02
AN_AGENT = "INSERT INTO agents (cluster, namespace, name, uid) VALUES ('c', 'prod', 'porep', 'u') RETURNING id"
THE_SAME = "INSERT INTO triggers (agent_id, kind, value, state) VALUES (%s, 'Request', 'now', 'pending') RETURNING id"


@contextmanager
def a_database(server: EmbeddedPostgres, template: str | None = None) -> Iterator[str]:
    name = f"test_{secrets.token_hex(5)}"
    yield server.create_database(name, template=template) if template else server.create_database(name)
    server.drop_database(name)


@pytest.fixture(scope="module")
def first_schema(postgres_server: EmbeddedPostgres) -> str:
    """The name of a database as the previous version has left it."""
    migrate_to(postgres_server.create_database("first_schema"), "0001")
    return "first_schema"


def differences(url: str) -> object:
    """Between the database and the tables that the code knows."""
    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
    with engine.connect() as connection:
        assert MigrationContext.configure(connection).get_current_revision() == head()
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return compare_metadata(context, metadata)


@pytest.mark.parametrize("before", ["an empty database", "the previous schema"])
def test_of_three_that_migrate_at_once_one_is_killed_and_the_others_finish_its_work(
    postgres_server: EmbeddedPostgres, first_schema: str, before: str
) -> None:
    template = first_schema if before == "the previous schema" else None
    killed = 0
    for number in range(ROUNDS):
        with a_database(postgres_server, template) as url:
            three = [FORK.Process(target=migrate_to_head, args=(url,)) for _ in range(3)]
            for process in three:
                process.start()
            three[0].join(number * LATER_EACH_TIME_S)
            three[0].kill()
            for process in three:
                process.join()
            codes = [process.exitcode for process in three]
            assert codes in ([0, 0, 0], [-signal.SIGKILL, 0, 0])
            killed += codes != [0, 0, 0]
            assert differences(url) == []
    assert killed


def test_back_and_forth_ends_where_it_began(postgres_server: EmbeddedPostgres) -> None:
    with a_database(postgres_server) as url:
        migrate_to(url, head())

        assert migrate_to(url, "0001") == "0001"
        assert differences_of_schema(url) == [
            "ix_compactions_session_id_run_id",
            "ix_notifications_agent_id",
            "ix_triggers_said_once",
        ]
        assert migrate_to(url, head()) == head()

        assert differences(url) == []


def differences_of_schema(url: str) -> list[str]:
    """Indexes that the code knows and the database does not have."""
    known = {str(index.name) for table in metadata.tables.values() for index in table.indexes}
    with psycopg.connect(url) as connection:
        found = {row[0] for row in connection.execute("SELECT indexname FROM pg_indexes").fetchall()}
    return sorted(known - found)


def test_a_schema_that_this_version_does_not_know_is_no_aim(postgres_server: EmbeddedPostgres) -> None:
    with a_database(postgres_server) as url, pytest.raises(CannotStart, match="it knows 0001, 0002"):
        migrate_to(url, "9999")


def test_what_was_said_twice_before_waits_once_after(postgres_server: EmbeddedPostgres, first_schema: str) -> None:
    with a_database(postgres_server, first_schema) as url:
        with psycopg.connect(url) as connection:
            (agent,) = connection.execute(AN_AGENT).fetchone() or (None,)
            ids = [(connection.execute(THE_SAME, [agent]).fetchone() or (None,))[0] for _ in range(3)]

        migrate_to(url, head())

        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT id, state FROM triggers ORDER BY id").fetchall()
    assert found == [(ids[0], "pending"), (ids[1], "dropped"), (ids[2], "dropped")]


def test_whoever_held_a_lease_before_holds_none_after(postgres_server: EmbeddedPostgres, first_schema: str) -> None:
    with a_database(postgres_server, first_schema) as url:
        with psycopg.connect(url) as connection:
            connection.execute(AN_AGENT)
            connection.execute("UPDATE agents SET lease_owner = 'old', lease_token = 7, lease_until = now() + '1 day'")

        migrate_to(url, head())

        with psycopg.connect(url) as connection:
            held = connection.execute("SELECT lease_owner, lease_token, lease_until FROM agents").fetchone()
            migrate_to(url, head())
            again = connection.execute("SELECT lease_token FROM agents").fetchone()
    assert held == (None, 8, None)
    assert again == (8,)


def test_the_first_migration_is_settled(request: pytest.FixtureRequest) -> None:
    """The databases of the previous version have it as it was: a change of the schema is a migration of its own."""
    versions = request.config.rootpath / "operator/fleetagent/adapters/postgres/migrations/versions"

    assert (versions / "0001_first_schema.py").read_bytes() == first_migration_before()
