"""Whether the database is one that this version works with, asked often and answered soon."""

import asyncio

import sqlalchemy as sa

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.errors import TryLater

ANSWER_SECONDS = 0.8
LOOK_SECONDS = 3.0

_ANYTHING = sa.text("SELECT 1")


class Schema:
    """A look at the schema's revision on a connection of its own: those of the pool may all be in use for minutes."""

    def __init__(self, database_url: str) -> None:
        self._engine = open_engine(database_url, pool_size=1)
        self._database = Database(self._engine, longest_seconds=LOOK_SECONDS)
        self._looking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """`TryLater` when the database does not answer within a second, or its schema is not this version's.

        A look that takes longer is not broken off: the driver would first ask the silent server, for ten seconds, to
        forget about it. Who asks meanwhile waits for the same one.
        """
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="look at the schema")
            self._looking.add_done_callback(_heard)
        looking = self._looking
        done, _ = await asyncio.wait({looking}, timeout=ANSWER_SECONDS)
        if not done:
            raise TryLater("database: no answer in time")
        looking.result()

    async def _look(self) -> None:
        async with self._database.statements() as connection:  # which sees to the schema, as for everybody
            await connection.execute(_ANYTHING)

    async def close(self) -> None:
        """Give the connection back."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
        await self._engine.dispose()


def _heard(looked: asyncio.Task[None]) -> None:
    """Nobody may have waited for the end of a long look; asyncio would complain of that."""
    if not looked.cancelled():
        looked.exception()
