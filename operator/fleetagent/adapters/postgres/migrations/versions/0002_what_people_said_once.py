"""What people said waits once: two processes that see one annotation at the same moment cannot both write it down."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NAME = "ix_triggers_said_once"
SAID = "state = 'pending' AND kind IN ('Request', 'Feedback', 'Approval')"


def upgrade() -> None:
    op.execute(f"""
        UPDATE triggers SET state = 'dropped', processed_at = now() WHERE {SAID} AND EXISTS (
            SELECT 1 FROM triggers AS earlier
            WHERE earlier.agent_id = triggers.agent_id AND earlier.kind = triggers.kind
                AND earlier.value = triggers.value AND earlier.state = 'pending' AND earlier.id < triggers.id
        )
    """)  # noqa: S608 - nobody's input
    op.create_index(NAME, "triggers", ["agent_id", "kind", "value"], unique=True, postgresql_where=sa.text(SAID))


def downgrade() -> None:
    op.drop_index(NAME, table_name="triggers", postgresql_where=sa.text(SAID))
