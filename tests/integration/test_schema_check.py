"""The look at the database that /readyz takes: soon, and in words."""

import asyncio
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import psycopg
import pytest

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import TRUSTED_SECONDS, open_engine
from fleetagent.adapters.postgres.revisions import head
from fleetagent.adapters.postgres.schema import Schema
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.errors import TryLater
from support.wire import Mode, a_wire


@pytest.fixture
async def schema(database_url: str) -> AsyncIterator[Schema]:
    looked_at = Schema(database_url)
    yield looked_at
    await looked_at.close()


def do(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement.encode())


async def answered(schema: Schema, within_s: float = 40, *, unseen: bool = False) -> None:
    """Ask as a kubelet does, until all is well; `unseen`: that the machine is busy is the one excuse."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return await schema.check()
        except TryLater as error:
            if time.monotonic() > deadline or (unseen and "no answer in time" not in str(error)):
                raise
            await asyncio.sleep(0.2)


async def told(schema: Schema, words: str, within_s: float = 20) -> None:
    """Ask until the answer is this one: a schema that was right is taken to be so for seconds."""
    deadline, said = time.monotonic() + within_s, ""
    while words not in said:
        assert time.monotonic() < deadline, said
        try:
            await schema.check()
        except TryLater as error:
            said = str(error)
        await asyncio.sleep(0.1)


async def test_another_version_s_schema_is_named(schema: Schema, database_url: str) -> None:
    await answered(schema)

    do(database_url, "UPDATE alembic_version SET version_num = '9999'")
    await told(schema, f"the database has schema 9999, and this version works with {head()}")
    do(database_url, "DELETE FROM alembic_version")
    await told(schema, "the database has schema None")
    do(database_url, "DROP TABLE alembic_version")
    await told(schema, "the database has no schema of ours")


async def test_a_database_that_was_emptied_is_away_for_whoever_works_with_it_and_no_row_is_to_blame(
    database_url: str,
) -> None:
    do(database_url, "DROP TABLE alembic_version")
    engine = open_engine(database_url)
    with pytest.raises(TryLater, match=r"no schema of ours \(relation .* does not exist\): restart this version"):
        async with Database(engine).transaction():
            pytest.fail("nothing is to be written there")

    await engine.dispose()


async def test_a_connection_that_the_server_ended_is_replaced_unseen(
    schema: Schema, database_url: str, postgres_server: EmbeddedPostgres
) -> None:
    await answered(schema)
    name = urlsplit(database_url).path.removeprefix("/")
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        ended = "SELECT bool_and(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = %s"
        assert admin.execute(ended, (name,)).fetchone() == (True,)

    await asyncio.sleep(TRUSTED_SECONDS)  # what was in use a moment ago is not looked at first

    await answered(schema, unseen=True)


async def test_a_database_that_does_not_answer_is_told_within_a_second_and_found_again(database_url: str) -> None:
    parts = urlsplit(database_url)
    with a_wire(parts.port or 5432) as wire:
        there = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{wire.port}").geturl()
        schema = Schema(there)
        await answered(schema)
        with wire.broken(Mode.BLACK_HOLE):
            took: list[float] = []
            for _ in range(3):
                began = time.monotonic()
                with pytest.raises(TryLater, match="no answer in time"):
                    await schema.check()
                took.append(time.monotonic() - began)
            assert min(took) < 1.5
        await answered(schema)
        await schema.close()
