"""Demand from Curio's own database: one connection per look, read-only, and over after seconds whatever happens."""

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncGenerator, Mapping
from typing import NoReturn, cast

import psycopg
from psycopg.rows import dict_row

from fleetagent.adapters.demand.curio_tables import COUNTS, HAS_HEARTBEAT, SINCE_CONTACT, TABLES, counts_in
from fleetagent.adapters.demand.dsn import FIELD, Dsn
from fleetagent.domain.demand import Demand
from fleetagent.domain.text import neutral
from fleetagent.errors import BadResource, TryLater

LOOK_SECONDS = 5.0
SILENT_SECONDS = 600.0
"""After so long without contact Curio itself takes a node for dead."""

WRONG_LOGIN = (
    *("authentication failed", "no password supplied", "does not exist", "no such database", "no such user"),
    *("no pg_hba.conf entry", "not permitted to log in", "permission denied for database"),
    *("does not support SSL", "certificate verify failed", "root certificate file", "invalid sslmode value"),
)
"""What servers and poolers say when the DSN must be corrected; a refused connection carries no error code."""

Connection = psycopg.AsyncConnection[object]


class CurioSource:
    """Connects for each look and closes after it. Implements `ports.DemandSource`. Safe behind pgbouncer."""

    def __init__(self, dsn: Dsn, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._dsn = dsn
        self._look_seconds = look_seconds

    async def demand(self) -> Demand:
        """The demand now. `TryLater` when the database does not answer in time: unknown, not zero.

        `BadResource` when the DSN, the user's rights or the tables are not what they must be, or Curio stands still.
        """
        until = asyncio.get_running_loop().time() + self._look_seconds
        try:
            async with asyncio.timeout_at(until):
                connection: Connection = await psycopg.AsyncConnection.connect(
                    **self._dsn.parameters, prepare_threshold=None
                )
        except TimeoutError as error:
            raise self._late() from error
        except (psycopg.Error, UnicodeError) as error:  # the latter for a host that is no name
            self._raise_refusal(error)
        try:
            return await self._asked(connection, until)
        except psycopg.errors.QueryCanceled as error:
            raise self._late() from error
        except psycopg.Error as error:
            self._raise_unreadable(error)
        finally:
            await connection.close()

    async def _asked(self, connection: Connection, until: float) -> Demand:
        """The answer, or its error. A server that fell silent is hung up on: psycopg would wait for it once more."""
        asking = asyncio.create_task(_look(connection, until - asyncio.get_running_loop().time()))
        try:
            await asyncio.wait({asking}, timeout=max(until - asyncio.get_running_loop().time(), 0.0))
            if not asking.done():
                raise self._late()
            return asking.result()
        finally:
            if not asking.done():
                _hang_up(connection)
                await asyncio.wait({asking})
                asking.exception()  # the hanging up, which is no news

    def _late(self) -> TryLater:
        because = f"Curio's database does not answer within {self._look_seconds:g} s"
        return TryLater(f"{FIELD}: {because}: see that it is up, and reachable from the operator")

    def _raise_refusal(self, error: Exception) -> NoReturn:
        words = self._words(error)
        if any(sign in str(error) for sign in WRONG_LOGIN):
            remedy = "correct user, password, database or sslmode in that Secret"
            raise BadResource(
                "DemandKnown", "LoginRefused", f"{FIELD}: Curio's database refuses it: {words}; {remedy}"
            ) from error
        raise TryLater(
            f"{FIELD}: Curio's database cannot be reached: {words}; see that it is up, or correct that Secret"
        ) from error

    def _raise_unreadable(self, error: psycopg.Error) -> NoReturn:
        words = self._words(error)
        match error:
            case psycopg.errors.InsufficientPrivilege():
                remedy = f"GRANT USAGE ON SCHEMA curio, and SELECT on its {', '.join(TABLES)}, to the user of that DSN"
                raise BadResource("DemandKnown", "CurioForbidden", f"{FIELD}: {words}; {remedy}") from error
            case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedColumn():
                remedy = "that Secret must name the database of a Curio, 2025 or newer, with its schema curio"
                raise BadResource("DemandKnown", "CurioTablesMissing", f"{FIELD}: {words}; {remedy}") from error
            case _:
                raise TryLater(
                    f"{FIELD}: Curio's database failed: {words}; see that it is well, or correct that Secret"
                ) from error

    def _words(self, error: Exception) -> str:
        first = next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
        return neutral(self._dsn.without_password(first), 200)


async def _look(connection: Connection, seconds: float) -> Demand:
    """One read-only transaction, whose only settings end with it."""
    await connection.set_read_only(True)
    async with connection.transaction():
        await connection.execute(
            f"SET LOCAL statement_timeout = {max(int(seconds * 900), 1)}"
        )  # in ms: before we hang up
        has_heartbeat = (await _only_row(connection, HAS_HEARTBEAT)).get("has_heartbeat")
        since_contact = await _only_row(connection, SINCE_CONTACT) if has_heartbeat else {}
        counts = counts_in(await _only_row(connection, COUNTS))
    if counts is None:
        raise TryLater(f"{FIELD}: Curio's database answers with something else than counts: correct that Secret")
    _check_nodes(since_contact.get("seconds"))
    return counts.demand


async def _only_row(connection: Connection, query: str) -> Mapping[str, object]:
    """The one row that each of our queries has. Read as it comes: a server that says more fills no memory."""
    rows: list[Mapping[str, object]] = []
    async with connection.cursor(row_factory=dict_row) as cursor:
        coming = cast("AsyncGenerator[Mapping[str, object], None]", cursor.stream(query.encode()))
        async with contextlib.aclosing(coming):
            async for row in coming:
                rows.append(row)
                if len(rows) > 1:
                    break
    return rows[0] if len(rows) == 1 else {}


def _check_nodes(silent_seconds: object) -> None:
    """By the database's own clock: clocks that differ do not matter. Null: no node was ever there."""
    if silent_seconds is None:
        return
    if not isinstance(silent_seconds, float) or not math.isfinite(silent_seconds):
        raise TryLater(f"{FIELD}: Curio's database says no moment of its nodes' last contact: correct that Secret")
    if silent_seconds > SILENT_SECONDS:
        silence = f"no Curio node has been in contact with it for {silent_seconds / 60:.0f} min: see whether Curio runs"
        raise BadResource("DemandKnown", "DemandStale", f"{FIELD}: {silence}, and whether this is its database")


def _hang_up(connection: Connection) -> None:
    """Cut the wire, so that whoever waits for an answer hears that there will be none."""
    if connection.closed:
        return
    wire = socket.socket(fileno=connection.pgconn.socket)
    with contextlib.suppress(OSError):  # the other side was faster
        wire.shutdown(socket.SHUT_RDWR)
    wire.detach()  # libpq owns it and closes it
