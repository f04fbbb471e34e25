"""Brings a database to this version's schema, once, whoever else tries at the same time."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from fleetagent.adapters.postgres.engine import sync_url
from fleetagent.errors import CannotStart

HERE = Path(__file__).parent / "migrations"
LOCK = 7_305_126_482  # any number that nobody else's migrations use


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(HERE))
    return config


def head() -> str:
    """The newest schema that this version knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise CannotStart("this installation of fleetagent holds no database migrations")
    return revision


def migrate_to_head(database_url: str) -> str:
    """Migrate in one transaction under a lock that ends with it; return the revision.

    Several replicas may call this at once: one works, the others wait and find nothing to do. A schema that is newer
    than this version is refused with `CannotStart`, and nothing is written.
    """
    engine = sa.create_engine(sync_url(database_url), poolclass=sa.NullPool, connect_args={"prepare_threshold": None})
    config = _config()
    try:
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as error:
        raise CannotStart(
            f"the database's schema is not one that this version knows ({error}); "
            "it was probably migrated by a newer fleetagent: upgrade the operator, or restore the database"
        ) from error
    except sa.exc.OperationalError as error:
        reason = str(error.orig).strip().splitlines()[0] if error.orig else "no reason given"
        raise CannotStart(f"FLEETAGENT_DATABASE_URL: the database cannot be used: {reason}") from error
    except sa.exc.ProgrammingError as error:
        reason = str(error.orig).strip().splitlines()[0] if error.orig else "no reason given"
        raise CannotStart(f"FLEETAGENT_DATABASE_URL: the database refused the migration: {reason}") from error
    finally:
        engine.dispose()
    return head()
