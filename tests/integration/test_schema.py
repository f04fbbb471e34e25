"""Migrations and tables say the same, and several who migrate at once do not get in each other's way."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from fleetagent.adapters.postgres.migrate import head
from fleetagent.adapters.postgres.tables import metadata


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


def test_all_times_are_aware(connection: sa.Connection) -> None:
    naive = sa.text("SELECT table_name, column_name FROM information_schema.columns WHERE data_type LIKE :type")
    rows = connection.execute(naive, {"type": "timestamp without%"}).fetchall()

    assert [r for r in rows if r.table_name in metadata.tables] == []
