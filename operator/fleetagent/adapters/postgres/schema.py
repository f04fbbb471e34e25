"""Whether the database is one that this version works with, asked often and answered soon."""

import sqlalchemy as sa

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.migrate import head
from fleetagent.errors import NotStorable, TryLater

ANSWER_SECONDS = 0.8

_REVISION = sa.text("SELECT version_num FROM alembic_version")


class Schema:
    """A look at the schema's revision on a connection of its own: those of the pool may all be in use for minutes."""

    def __init__(self, database_url: str) -> None:
        self._engine = open_engine(database_url, pool_size=1)
        self._database = Database(self._engine, longest_seconds=ANSWER_SECONDS)

    async def check(self) -> None:
        """`TryLater` when the database is not there within a second, or its tables are not those of this version."""
        try:
            async with self._database.statements() as connection:
                found = await connection.scalar(_REVISION)
        except NotStorable as error:
            raise TryLater(f"the database has no schema of ours: {error}") from error
        if found != head():
            raise TryLater(
                f"the database has schema {found}, and this version works with {head()}: run the version that it "
                "belongs to, or `fleetagent migrate`"
            )

    async def close(self) -> None:
        """Give the connection back."""
        await self._engine.dispose()
