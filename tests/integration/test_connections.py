"""However slow the database is, those who wait for it open no more connections than their pool has."""

import asyncio
import contextlib

import psycopg
import sqlalchemy as sa

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.errors import TryLater

POOL = 2
LONGEST_SECONDS = 0.3
SLOW = sa.text(f"SELECT pg_sleep({LONGEST_SECONDS * 0.9})")
OURS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'fleetagent'"""


async def test_readers_who_give_up_make_no_room_for_more_connections(database_url: str) -> None:
    engine = open_engine(database_url, POOL)
    database = Database(engine, longest_seconds=LONGEST_SECONDS)

    async def read() -> None:
        with contextlib.suppress(TryLater):
            async with database.statements() as connection:
                await connection.execute(SLOW)

    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        readers: list[asyncio.Task[None]] = []
        counts: list[int] = []
        for _ in range(80):
            readers.append(asyncio.create_task(read()))
            await asyncio.sleep(0.02)
            (count,) = await (await other.execute(OURS)).fetchone() or (0,)
            counts.append(count)
        await asyncio.gather(*readers)
    await engine.dispose()

    assert max(counts) <= POOL * 3  # one that was given up is a moment in ending
