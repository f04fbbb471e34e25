"""Brings a database to this version's schema, once, whoever else tries at the same time."""

import asyncio
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.ext.asyncio import AsyncEngine

from fleetagent.adapters.postgres.engine import open_engine, reason_of
from fleetagent.errors import CannotStart

HERE = Path(__file__).parent / "migrations"
LOCK = 7_305_126_482  # any number that nobody else's migrations use


def migrate_to_head(database_url: str) -> str:
    """Migrate the database of this URL; the revision. For callers without an event loop."""

    async def work() -> str:
        engine = open_engine(database_url, pool_size=1)
        try:
            return await migrate(engine)
        finally:
            await engine.dispose()

    return asyncio.run(work())


async def migrate(engine: AsyncEngine) -> str:
    """Migrate in one transaction under a lock that ends with it; return the revision.

    Several replicas may call this at once: one works, the others wait and find nothing to do. A schema that is newer
    than this version is refused with `CannotStart`, and nothing is written.
    """
    try:
        async with engine.begin() as connection:
            await connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
            await connection.run_sync(_upgrade)
    except CommandError as error:
        raise CannotStart(
            f"the database's schema is not one that this version knows ({error}); "
            "it was probably migrated by a newer fleetagent: upgrade the operator, or restore the database"
        ) from error
    except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError, OSError) as error:
        raise CannotStart(f"FLEETAGENT_DATABASE_URL: the database cannot be used: {reason_of(error)}") from error
    except sa.exc.DBAPIError as error:
        raise CannotStart(f"FLEETAGENT_DATABASE_URL: the database refused the migration: {reason_of(error)}") from error
    return head()


def head() -> str:
    """The newest schema that this version knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise CannotStart("this installation of fleetagent holds no database migrations")
    return revision


def _upgrade(connection: sa.Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))  # alembic interpolates
    return config
