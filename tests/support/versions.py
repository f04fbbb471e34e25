"""Other versions of ours: the one before this, as it was kept, and a made-up one to come, with a schema of its own."""

import shutil
import sys
import zipfile
from pathlib import Path
from subprocess import run

import fleetagent
from fleetagent.adapters.postgres.revisions import head
from support.processes import Ended, environment

PREVIOUS = Path(__file__).parents[1] / "previous"
CHART_BEFORE = PREVIOUS / "fleetagent-0.1.0.tgz"
MIGRATIONS = Path("fleetagent/adapters/postgres/migrations/versions")
SCHEMA_TO_COME = "9999"
ITS_MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{SCHEMA_TO_COME}", "{head()}", None, None

def upgrade():
    op.add_column("instances", sa.Column("colour", sa.Text(), nullable=False, server_default="grey"))

def downgrade():
    op.drop_column("instances", "colour")
"""


def sources_before(folder: Path) -> Path:
    """The previous version's code, for PYTHONPATH."""
    (wheel,) = PREVIOUS.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "before")
    return folder / "before"


def sources_to_come(folder: Path) -> Path:
    """This version's code with one migration more."""
    ours = Path(fleetagent.__file__).parent
    shutil.copytree(ours, folder / "to-come" / "fleetagent", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "to-come" / MIGRATIONS / f"{SCHEMA_TO_COME}_colours.py").write_text(ITS_MIGRATION)
    return folder / "to-come"


def first_migration_before() -> bytes:
    """How the first migration stands in the previous version."""
    (wheel,) = PREVIOUS.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        return packed.read(str(MIGRATIONS / "0001_first_schema.py"))


def migrate(database_url: str, *arguments: str, sources: Path | None = None) -> Ended:
    """`fleetagent migrate` of this version, or of another."""
    settings = {"FLEETAGENT_DATABASE_URL": database_url}
    done = run(
        [sys.executable, "-m", "fleetagent", "migrate", *arguments],
        env=environment({**settings, **({"PYTHONPATH": str(sources)} if sources else {})}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Ended(done.returncode, done.stderr)
