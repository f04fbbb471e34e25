"""Short transactions, and the fence that each write passes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from fleetagent.adapters.postgres.tables import agents
from fleetagent.domain.records import Lease, Run
from fleetagent.errors import LeaseLost, TryLater

NOW = sa.func.clock_timestamp()
"""The database's clock: leases of several processes need one."""


class Database:
    """Hands out transactions; no SQLAlchemy error leaves it."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """One transaction on a pooled connection; `TryLater` when the database is not there."""
        try:
            async with self._engine.begin() as connection:
                yield connection
        except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError, OSError) as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()
            raise TryLater(f"database: {reason[0] if reason else type(error).__name__}") from error

    @asynccontextmanager
    async def owned(self, lease: Lease) -> AsyncIterator[AsyncConnection]:
        """A transaction that holds the agent's row while the lease is ours; `LeaseLost` otherwise."""
        async with self.transaction() as connection:
            await _fence(connection, lease, None)
            yield connection

    @asynccontextmanager
    async def in_session(self, run: Run) -> AsyncIterator[AsyncConnection]:
        """As `owned`, and the session that the run belongs to is still the current one."""
        async with self.transaction() as connection:
            await _fence(connection, run.lease, run.epoch)
            yield connection


async def _fence(connection: AsyncConnection, lease: Lease, epoch: int | None) -> None:
    held = sa.select(agents.c.epoch).where(
        agents.c.id == lease.agent_id, agents.c.lease_token == lease.token, agents.c.lease_until > NOW
    )
    now_epoch = await connection.scalar(held.with_for_update())
    if now_epoch is None:
        raise LeaseLost("another process owns this agent now")
    if epoch is not None and now_epoch != epoch:
        raise LeaseLost("the session has been reset")
