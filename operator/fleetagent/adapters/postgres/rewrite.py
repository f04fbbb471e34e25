"""Alembic's part: it goes from one schema to another, on a connection and in a transaction of somebody else's."""

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from fleetagent.adapters.postgres.revisions import MIGRATIONS


def rewrite(connection: sa.Connection, target: str, *, is_older: bool) -> None:
    """Bring the schema to `target`, which is older than what is there if so said."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))  # alembic interpolates
    config.attributes["connection"] = connection
    (command.downgrade if is_older else command.upgrade)(config, target)
