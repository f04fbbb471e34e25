"""Short transactions, and the fence that each write passes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from fleetagent.adapters.postgres.engine import distrust, reason_of
from fleetagent.adapters.postgres.revisions import VERSION, head
from fleetagent.adapters.postgres.tables import agents
from fleetagent.domain.records import Lease, Run
from fleetagent.errors import LeaseLost, NotStorable, TryLater

NOW = sa.func.clock_timestamp()
"""The database's clock: leases of several processes need one."""

LONGEST_SECONDS = 20
"""A server that takes connections and does not answer would keep us waiting for ever, in silence."""

_BOUNDED = sa.func.set_config("idle_in_transaction_session_timeout", f"{LONGEST_SECONDS + 5}s", True)
_BOUND = sa.select(_BOUNDED)
"""Ends a transaction whose process has vanished without a word: the server would hold its locks for hours."""

SCHEMA_SEEN_SECONDS = 5.0
"""How long a schema that was right is taken to be so. Leases see a new one at once: `take_lease` asks by itself."""

NOT_THERE = (
    sa.exc.OperationalError,
    sa.exc.InterfaceError,
    sa.exc.InternalError,  # read-only after a failover, or a transaction that the server ended
    sa.exc.TimeoutError,
    OSError,
)


class Database:
    """Hands out transactions; no SQLAlchemy error leaves it."""

    def __init__(self, engine: AsyncEngine, *, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._engine = engine
        self._longest_seconds = longest_seconds
        self._schema_is_right_until = 0.0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """One transaction on a pooled connection; `TryLater` when the database is not there, or takes too long."""
        async with self._begun() as connection:
            await connection.execute(_BOUND)
            yield connection

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[AsyncConnection]:
        async with self._in_time(), self._engine.begin() as connection:
            await self._see_schema(connection)
            yield connection

    @asynccontextmanager
    async def statements(self) -> AsyncIterator[AsyncConnection]:
        """For reads, and for a write that needs no other: each statement is a transaction of its own.

        It spares the round trips of BEGIN and COMMIT, which cost more than most statements.
        """
        async with self._in_time(), self._engine.connect() as connection:
            await _commit_each(connection)
            await self._see_schema(connection)
            yield connection

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Where one connection was silent for too long, those at rest may be dead too: each would cost that again."""
        try:
            with _translated():
                async with asyncio.timeout(self._longest_seconds):
                    yield
        except TryLater as error:
            if isinstance(error.__cause__, TimeoutError):
                distrust(self._engine)
            raise

    async def _see_schema(self, connection: AsyncConnection) -> None:
        """A newer version may migrate while this one is still running: from then on it must write nothing."""
        if time.monotonic() < self._schema_is_right_until:
            return
        try:
            found = await connection.scalar(sa.select(VERSION))
        except sa.exc.ProgrammingError as error:  # emptied, or restored from nothing: no row is to blame
            raise TryLater(
                f"the database has no schema of ours ({reason_of(error)}): restart this version, which makes it"
            ) from error
        if found != head():
            raise TryLater(
                f"the database has schema {found}, and this version works with {head()}: it writes nothing; run the "
                "version that the schema belongs to, or restart this one, which brings an older schema up to date"
            )
        self._schema_is_right_until = time.monotonic() + SCHEMA_SEEN_SECONDS

    @asynccontextmanager
    async def owned(self, lease: Lease) -> AsyncIterator[AsyncConnection]:
        """A transaction that holds the agent's row while the lease is ours; `LeaseLost` otherwise."""
        async with self._begun() as connection:
            await _fence(connection, lease, None)
            yield connection

    @asynccontextmanager
    async def in_session(self, run: Run) -> AsyncIterator[AsyncConnection]:
        """As `owned`, and the session that the run belongs to is still the current one."""
        async with self._begun() as connection:
            await _fence(connection, run.lease, run.epoch)
            yield connection

    async def at_once(
        self, statement: sa.Executable, lease: Lease, given: Mapping[str, Any], *, epoch: int | None = None
    ) -> sa.Row[Any]:
        """A whole fenced transaction in one round trip: a `SELECT HELD.c.epoch` whose CTEs write what `HELD` lets them.

        Or the same as text, `fenced`; its first column is the epoch, too. `LeaseLost` as above; then nothing was
        written. With an `epoch` the CTEs must ask for `:its_epoch` themselves. No parameter may have the name of a
        column: SQLAlchemy would write it into that.
        """
        fenced_by = {"agent": lease.agent_id, "token": lease.token}
        if epoch is not None:
            fenced_by["its_epoch"] = epoch
        async with self.statements() as connection:
            row: sa.Row[Any] | None = (await connection.execute(statement, {**given, **fenced_by})).one_or_none()
        _see(None if row is None else row[0], epoch)
        return cast("sa.Row[Any]", row)


async def _commit_each(connection: AsyncConnection) -> None:
    """Make each statement a transaction of its own, until the connection goes back.

    An option of the engine would do this before anybody holds the connection: who is cancelled meanwhile, for psycopg
    may let others go on in the middle of it, would never give it back.
    """
    try:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
    except BaseException:
        await connection.invalidate()  # whether it commits by itself is uncertain: nobody may have it for a transaction
        raise


def is_our_schema() -> sa.Exists:
    """For a statement that must not happen on another version's schema."""
    return sa.select(VERSION).where(VERSION.c.version_num == head()).exists()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except NOT_THERE as error:
        raise TryLater(f"database: {reason_of(error)}") from error
    except (sa.exc.StatementError, UnicodeError) as error:  # the driver itself refuses half a character
        raise NotStorable(f"the database refuses a row: {reason_of(error)}") from error


# NO KEY: a worker's callback holds its machine's row while its event waits for the agent's key; a full lock would
# make the two wait for each other. Put together once, since every write passes here.
_HELD = (
    sa.select(agents.c.epoch, agents.c.id)
    .where(
        agents.c.id == sa.bindparam("agent"),
        agents.c.lease_token == sa.bindparam("token"),
        agents.c.lease_until > NOW,
    )
    .with_for_update(key_share=True)
)
_FENCE = _HELD.add_columns(_BOUNDED)
HELD = _HELD.cte("held")
"""The agent's row, locked, while the lease is held: no row otherwise."""


def fenced(then: str) -> sa.TextClause:
    """A statement for `at_once` as text: further CTEs, of which `held` is the first, and a SELECT from it."""
    held = """SELECT id, epoch FROM agents
        WHERE id = :agent AND lease_token = :token AND lease_until > clock_timestamp() FOR NO KEY UPDATE"""
    return sa.text(f"WITH held AS ({held}), {then}")


async def _fence(connection: AsyncConnection, lease: Lease, epoch: int | None) -> None:
    _see(await connection.scalar(_FENCE, {"agent": lease.agent_id, "token": lease.token}), epoch)


def _see(now_epoch: int | None, epoch: int | None) -> None:
    if now_epoch is None:
        raise LeaseLost("another process owns this agent now")
    if epoch is not None and now_epoch != epoch:
        raise LeaseLost("the session has been reset")
