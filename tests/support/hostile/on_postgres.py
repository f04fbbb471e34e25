"""The books of a hostile world on a real Postgres: the same ports, kept by the stores."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from fleetagent.adapters.postgres.workers import PostgresWorkers
from fleetagent.domain.records import AgentKey
from support.hostile.world import NAMES
from support.stores import Process, a_process


class StoredBooks:
    """All stores as one object, as the world knows its books."""

    def __init__(self, process: Process) -> None:
        self._stores = (process.agents, process.runs, process.ledger)

    def __getattr__(self, name: str) -> Any:
        return next(getattr(store, name) for store in self._stores if hasattr(store, name))


class StoredWorkers:
    """Workers that remember the id that they were given."""

    def __init__(self, process: Process) -> None:
        self._workers = PostgresWorkers(process.database)
        self._uuids: dict[str, str] = {}

    async def register(self, token: str, now: datetime) -> None:
        if (registered := await self._workers.register(token, "C.1", now)) is not None:
            self._uuids[token] = registered.uuid

    async def params_done(self, token: str, now: datetime) -> None:
        await self._workers.params_done(token, self._uuids.get(token, ""), now)

    async def bench_done(self, token: str, rate: float, now: datetime) -> float | None:
        answer = await self._workers.bench_done(token, self._uuids.get(token, ""), rate, now)
        if answer is None or not (answer.ok and answer.passed):
            return None
        return rate if answer.counted_rate is None else answer.counted_rate


@asynccontextmanager
async def books_on_postgres(database_url: str) -> AsyncIterator[tuple[StoredBooks, StoredWorkers]]:
    """A database with a row for each of the world's agents."""
    async with a_process(database_url) as process:
        for number, name in enumerate(NAMES, 1):
            record = await process.agents.meet(AgentKey("default", name), f"uid-{number}", floor=0, handled={})
            assert record.id == number
        yield StoredBooks(process), StoredWorkers(process)
