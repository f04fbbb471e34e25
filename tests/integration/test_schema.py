"""Migrations and tables say the same, and several who migrate at once do not get in each other's way."""

import asyncio
import secrets
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.migrate import LOCK, migrate
from fleetagent.adapters.postgres.revisions import head
from fleetagent.adapters.postgres.tables import metadata
from fleetagent.dev.postgres import EmbeddedPostgres


@pytest.fixture
def connection(database_url: str) -> Iterator[sa.Connection]:
    """Of a database that was migrated to the newest schema."""
    engine = sa.create_engine(sa.make_url(database_url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
    with engine.connect() as open_connection:
        yield open_connection


def test_migrations_make_exactly_the_tables_that_the_code_knows(connection: sa.Connection) -> None:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})

    assert compare_metadata(context, metadata) == []


def test_every_check_of_the_code_is_one_of_the_database(connection: sa.Connection) -> None:
    """Alembic compares no check constraints."""
    inspector = sa.inspect(connection)
    checks = {c["name"] for table in metadata.tables for c in inspector.get_check_constraints(table)}
    known = {c.name for t in metadata.tables.values() for c in t.constraints if isinstance(c, sa.CheckConstraint)}

    assert checks == known


def test_a_migrated_database_says_which_schema_it_has(connection: sa.Connection) -> None:
    assert MigrationContext.configure(connection).get_current_revision() == head()


async def test_replicas_that_start_at_once_migrate_one_after_the_other(postgres_server: EmbeddedPostgres) -> None:
    name = f"test_{secrets.token_hex(5)}"
    engines = [open_engine(postgres_server.create_database(name), pool_size=1)]
    engines += [open_engine(postgres_server.url_of(name), pool_size=1) for _ in range(2)]
    here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    waiting = f"SELECT count(*) FROM pg_locks WHERE {here} AND NOT granted"  # noqa: S608 - nobody's input
    try:
        with psycopg.connect(postgres_server.url_of(name), autocommit=True) as first:
            first.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
            migrating = [asyncio.create_task(migrate(engine)) for engine in engines]
            async with asyncio.timeout(30):
                while first.execute(waiting).fetchone() != (3,):
                    assert not any(task.done() for task in migrating)
                    await asyncio.sleep(0.02)
        assert await asyncio.gather(*migrating) == [head()] * 3
    finally:
        for engine in engines:
            await engine.dispose()
        postgres_server.drop_database(name)


def test_all_times_are_aware(connection: sa.Connection) -> None:
    naive = sa.text("SELECT table_name, column_name FROM information_schema.columns WHERE data_type LIKE :type")
    rows = connection.execute(naive, {"type": "timestamp without%"}).fetchall()

    assert [r for r in rows if r.table_name in metadata.tables] == []
