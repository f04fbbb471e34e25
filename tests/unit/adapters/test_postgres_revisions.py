"""The schemas are known by their files, as alembic knows them."""

import subprocess
import sys

from alembic.config import Config
from alembic.script import ScriptDirectory

from fleetagent.adapters.postgres.revisions import MIGRATIONS, head, revisions


def test_the_files_names_say_what_alembic_reads_in_them() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)

    assert revisions() == tuple(script.revision for script in scripts.walk_revisions())
    assert (head(),) == tuple(scripts.get_heads())


def test_the_operator_does_without_alembic() -> None:
    loads = "import sys, fleetagent.bootstrap.serve; sys.exit('alembic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", loads], check=False).returncode == 0
