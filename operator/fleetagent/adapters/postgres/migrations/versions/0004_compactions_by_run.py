"""Compactions are found by their session's runs: a page of them, or one run's, must not read all of a long session."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_compactions_session_id", table_name="compactions")
    op.create_index("ix_compactions_session_id_run_id", "compactions", ["session_id", "run_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_compactions_session_id_run_id", table_name="compactions")
    op.create_index("ix_compactions_session_id", "compactions", ["session_id"], unique=False)
