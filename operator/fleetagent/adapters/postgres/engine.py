"""One pool of connections, safe behind pgbouncer in transaction mode."""

import math
import time
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from fleetagent.errors import CannotStart

CONNECT_SECONDS = 10
ANSWER_MS = 15_000
TRUSTED_SECONDS = 1.0
LONGEST_REASON = 300

_DISTRUSTED: WeakKeyDictionary[sa.Engine, float] = WeakKeyDictionary()
"""Since when nothing that rested by then is used."""

LOOKS_LIKE = "it should look like postgresql://user:password@host:5432/fleetagent"


def open_engine(database_url: str, pool_size: int = 10, *, trusted_seconds: float = TRUSTED_SECONDS) -> AsyncEngine:
    """A pool whose connections are checked before use and never hold a prepared statement.

    `CannotStart` for a URL that cannot be one; whether somebody answers there, the first transaction finds out.
    """
    parameters = _parameters(database_url)

    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(**parameters)

    engine = create_async_engine(
        "postgresql+psycopg://",
        async_creator=connect,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        pool_use_lifo=True,
        pool_recycle=1800,
        hide_parameters=True,  # values may be secret, or somebody's words
    )
    _check_what_has_rested(engine, trusted_seconds)
    return engine


def distrust(engine: AsyncEngine) -> None:
    """What rests in the pool now is not used again; a connection that somebody has stays theirs.

    A new pool in its place would let all who wait for the old one open as many connections once more.
    """
    _DISTRUSTED[engine.sync_engine] = time.monotonic()


def _check_what_has_rested(engine: AsyncEngine, trusted_seconds: float) -> None:
    """Ping a connection before use, as `pool_pre_ping` would, unless it was in use a moment ago.

    The steps of a run follow each other within milliseconds, and a ping before each is one round trip in four.
    """
    pool, dialect = engine.sync_engine.pool, engine.sync_engine.dialect

    @sa.event.listens_for(pool, "checkin")
    def rests(_connection: object, record: sa.pool.ConnectionPoolEntry) -> None:
        record.info["rests_since"] = time.monotonic()

    @sa.event.listens_for(pool, "checkout")
    def check(connection: Any, record: sa.pool.ConnectionPoolEntry, _proxy: object) -> None:
        now = time.monotonic()
        rests_since = record.info.get("rests_since", now)
        if rests_since <= _DISTRUSTED.get(engine.sync_engine, -math.inf):
            raise sa.exc.InvalidatePoolError("another connection was silent for too long")
        if now - rests_since < trusted_seconds:
            return
        try:
            dialect.do_ping(connection)
        except psycopg.Error as error:
            raise sa.exc.InvalidatePoolError(reason_of(error)) from error  # the pool opens new ones in their place


def _parameters(database_url: str) -> dict[str, Any]:
    """What psycopg connects with: libpq reads the URL, so that it means here what it means to psql."""
    if not database_url.startswith(("postgresql://", "postgres://")):
        raise CannotStart(f"FLEETAGENT_DATABASE_URL does not start with postgresql://; {LOOKS_LIKE}")
    try:
        given = conninfo_to_dict(database_url)
    except psycopg.Error:  # its message repeats parts of the URL, and one of them may be the password
        raise CannotStart(f"FLEETAGENT_DATABASE_URL cannot be read; {LOOKS_LIKE}") from None
    ports = str(given.get("port", "5432")).split(",")
    misplaced = any("@" in str(given.get(part, "")) for part in ("host", "dbname"))
    if misplaced or not all(p == "" or (p.isdigit() and int(p) < 65536) for p in ports):
        # An unescaped @ or / in the password moves its rest into host, port or name, which error messages show.
        raise CannotStart(
            f"FLEETAGENT_DATABASE_URL names no usable host and port; {LOOKS_LIKE}, "
            "with special characters of the password written as %40 for @, %2F for / and so on"
        )
    ours = {
        "prepare_threshold": None,
        "application_name": "fleetagent",
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": ANSWER_MS,
    }
    return {**ours, **given}


def reason_of(error: BaseException) -> str:
    """What the database or its driver said, in one line; neither repeats the password."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
    lines = [line.strip() for line in str(cause).splitlines()]
    useful = [line for line in lines if line and not line.startswith(("Is the server running", "LINE ", "^"))]
    silent = "no answer in time" if isinstance(cause, TimeoutError) else type(cause).__name__
    return " ".join(useful)[:LONGEST_REASON] or silent
