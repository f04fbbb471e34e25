"""The schemas that this version knows, by the files that make them: to know them nobody needs alembic."""

from functools import cache
from pathlib import Path

import sqlalchemy as sa

from fleetagent.errors import CannotStart

MIGRATIONS = Path(__file__).parent / "migrations"
VERSION = sa.table("alembic_version", sa.column("version_num", sa.Text))
"""Where a database says which of them it has."""


def head() -> str:
    """The newest schema that this version knows."""
    if not revisions():
        raise CannotStart("this installation of fleetagent holds no database migrations")
    return revisions()[0]


@cache
def revisions() -> tuple[str, ...]:
    """All of them, the newest first: `0002` for `versions/0002_what_it_is_about.py`."""
    files = (MIGRATIONS / "versions").glob("[0-9]*_*.py")
    return tuple(sorted((file.name.partition("_")[0] for file in files), reverse=True))
