"""Brings a database to this version's schema, once, whoever else tries at the same time."""

import asyncio
import logging

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from fleetagent.adapters.postgres.engine import open_engine, reason_of
from fleetagent.adapters.postgres.revisions import VERSION, head, revisions
from fleetagent.adapters.postgres.tables import agents
from fleetagent.errors import CannotStart, TryLater

log = logging.getLogger(__name__)

LOCK = 7_305_126_482  # any number that nobody else's migrations use
TRY_AGAIN_SECONDS = 5.0
SAY_AGAIN_AFTER = 12
A_MISTAKE = ("authentication failed", "does not exist", "no pg_hba.conf entry")
"""What a server says that waiting will not mend. The driver has no code for a connection that was refused."""


def migrate_to_head(database_url: str) -> str:
    """Migrate the database of this URL; the revision. For callers without an event loop."""
    return migrate_to(database_url, head())


def migrate_to(database_url: str, revision: str, *, wait: bool = False) -> str:
    """To this revision, be it newer or older than what the database has; if asked, once the database answers."""

    async def work() -> str:
        engine = open_engine(database_url, pool_size=1)
        try:
            if wait:
                return await migrate_when_it_answers(engine, revision)
            return await migrate(engine, revision)
        except TryLater as error:
            raise CannotStart(str(error)) from error
        finally:
            await engine.dispose()

    return asyncio.run(work())


async def migrate_when_it_answers(engine: AsyncEngine, revision: str | None = None) -> str:
    """As `migrate`, again and again while the database is away: to end each time would be a restart loop."""
    tried, said = 0, ""
    while True:
        try:
            return await migrate(engine, revision)
        except TryLater as error:
            if str(error) != said or tried % SAY_AGAIN_AFTER == 0:
                log.warning("%s; tried again every %d s", error, TRY_AGAIN_SECONDS)
            tried, said = tried + 1, str(error)
        await asyncio.sleep(TRY_AGAIN_SECONDS)


async def migrate(engine: AsyncEngine, revision: str | None = None) -> str:
    """Migrate in one transaction under a lock that ends with it, to the newest revision unless told otherwise.

    Several replicas may call this at once: one works, the others wait and find nothing to do. A schema that is newer
    than this version is refused with `CannotStart`, and nothing is written. A process at work on another schema loses
    its leases, and cannot take them again. `TryLater` while the database is away.
    """
    target = revision or head()
    if target not in revisions():
        raise CannotStart(f"this version knows no schema {target}; it knows {', '.join(reversed(revisions()))}")
    try:
        async with engine.begin() as connection:
            await connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
            await connection.run_sync(_migrate, target)
    except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError, OSError) as error:
        sentence = f"FLEETAGENT_DATABASE_URL: the database cannot be used: {reason_of(error)}"
        raise (CannotStart if any(words in sentence for words in A_MISTAKE) else TryLater)(sentence) from error
    except sa.exc.DBAPIError as error:
        raise CannotStart(f"FLEETAGENT_DATABASE_URL: the database refused the migration: {reason_of(error)}") from error
    return target


def _migrate(connection: sa.Connection, target: str) -> None:
    before = _schema_of(connection)
    if before == target:
        return
    if before is not None:
        if before not in revisions():
            raise CannotStart(
                f"the database's schema is not one that this version knows ({before}); "
                "it was probably migrated by a newer fleetagent: upgrade the operator, or let the newer one take it "
                f"back with `fleetagent migrate --to {head()}`"
            )
        # First, since each write of a run begins with its agent's row: in another order the two wait for each other.
        connection.execute(
            sa.update(agents).values(lease_token=agents.c.lease_token + 1, lease_owner=None, lease_until=None)
        )
    # As a rule there is nothing to rewrite, and alembic would keep 7 MiB of an operator that has no more use for it.
    from fleetagent.adapters.postgres.rewrite import rewrite  # noqa: PLC0415

    is_older = before is not None and revisions().index(before) < revisions().index(target)
    rewrite(connection, target, is_older=is_older)


def _schema_of(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION.name):
        return None
    found: str | None = connection.scalar(sa.select(VERSION))
    return found
