"""Whoever is cancelled, at whichever place it waits, gives its connection back, and as it was."""

import asyncio
import gc
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any

import psycopg.waiting
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine

POOL = 2
MOST_PLACES = 60
WRITE = sa.text("SELECT pg_current_xact_id()")
WRITTEN = sa.text("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")


@pytest.fixture
async def engine(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncEngine]:
    """On a busy loop, where psycopg lets others go on even where it need not wait; each use begins with a ping."""
    monkeypatch.setattr(psycopg.waiting, "MAX_BUSY_TIME", -1.0)
    engine = open_engine(database_url, POOL, trusted_seconds=0)
    gc.disable()  # it would give back later what nobody has given back
    try:
        yield engine
        await engine.dispose()
    finally:
        gc.enable()
    gc.collect()  # a socket that psycopg had just opened and handed to nobody


async def a_read(database: Database) -> None:
    async with database.statements() as connection:
        await connection.scalar(WRITTEN)


async def a_write(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(WRITE)


async def keeps_transactions(database: Database) -> bool:
    """Whether what one statement writes is still open at the next: the fence of each write relies on it."""
    async with database.transaction() as connection:
        await connection.execute(WRITE)
        return bool(await connection.scalar(WRITTEN))


@types.coroutine
def cancelled_at(place: int, work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
    """Do the work in this task, and cancel that where it waits for this time."""
    task = asyncio.current_task()
    assert task is not None
    go_on: Callable[[], Any] = partial(work.send, None)
    while True:
        try:
            waits_for = go_on()
        except StopIteration:
            return
        place -= 1
        if place == 0:
            task.cancel()
        try:
            go_on = partial(work.send, (yield waits_for))
        except BaseException as error:  # noqa: BLE001
            go_on = partial(work.throw, error)


async def alone(work: Awaitable[None]) -> None:
    await work


@pytest.mark.parametrize("is_new", [False, True], ids=["in use before", "new"])
@pytest.mark.parametrize("work", [a_read, a_write])
async def test_a_connection_comes_back_as_it_was(
    engine: AsyncEngine, work: Callable[[Database], Coroutine[Any, Any, None]], *, is_new: bool
) -> None:
    for place in range(1, MOST_PLACES):
        database = Database(engine)
        if is_new:
            await engine.dispose()
        else:
            assert await keeps_transactions(database)
        task = asyncio.create_task(alone(cancelled_at(place, work(database))))
        await asyncio.wait({task})
        pool = engine.sync_engine.pool
        assert isinstance(pool, sa.pool.QueuePool)
        assert pool.checkedout() == 0, f"cancelled where it waited for the {place}th time"
        assert await keeps_transactions(database), f"cancelled where it waited for the {place}th time"
        if not task.cancelled():
            await task
            break
    assert 7 < place < MOST_PLACES - 1
