"""A database that goes or does not answer is `TryLater`: soon, in words, and well again by itself."""

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import urlsplit

import psycopg
import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.agents import PostgresAgents
from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.domain.records import AgentKey
from fleetagent.errors import TryLater


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """With no trust in a connection that was well a moment ago."""
    engine = open_engine(database_url, pool_size=2, trusted_seconds=0)
    yield Database(engine)
    await engine.dispose()


async def count_agents(database: Database) -> int:
    """Any statement of ours."""
    async with database.transaction() as connection:
        return int(await connection.scalar(sa.text("SELECT count(*) FROM agents")) or 0)


async def test_a_statement_that_is_not_answered_does_not_keep_us(database: Database, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE agents IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        with pytest.raises(TryLater, match="database: no answer in time"):
            await count_agents(Database(database._engine, longest_seconds=1))
        assert time.monotonic() - began < 15

    assert await count_agents(database) == 0


async def test_connections_that_the_server_ended_are_replaced_unseen(
    database: Database, database_url: str, postgres_server: EmbeddedPostgres
) -> None:
    assert await count_agents(database) == 0
    name = urlsplit(database_url).path.removeprefix("/")
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        ended = "SELECT bool_and(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = %s"
        assert admin.execute(ended, (name,)).fetchone() == (True,)

    assert await count_agents(database) == 0


async def test_a_database_that_lets_nobody_in_says_so(
    database: Database, database_url: str, postgres_server: EmbeddedPostgres
) -> None:
    name = urlsplit(database_url).path.removeprefix("/")
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        with pytest.raises(TryLater, match="not currently accepting connections"):
            await count_agents(database)
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')

    assert await count_agents(database) == 0


async def test_the_server_ends_a_transaction_whose_process_has_vanished(database: Database) -> None:
    agents = PostgresAgents(database, cluster="c", owner="one", lease=timedelta(seconds=30))
    record = await agents.meet(AgentKey("n", "a"), "uid", floor=0, handled={})
    lease = await agents.take_lease(record.id)
    assert lease is not None

    async with database.owned(lease) as fenced, database.transaction() as free:
        for connection in (fenced, free):
            assert await connection.scalar(sa.text("SHOW idle_in_transaction_session_timeout")) == "25s"
    async with database.statements() as connection:
        assert await connection.scalar(sa.text("SHOW idle_in_transaction_session_timeout")) == "0"
