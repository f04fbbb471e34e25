"""What is told of alerts outside is written down with them, and marked off when a receiver has taken it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
WAITS = sa.text("state = 'waiting'")


def upgrade() -> None:
    op.create_table(
        "notifications",
        sa.Column("agent_id", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("alert_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "nth",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="of an alert that is told again and again",
        ),
        sa.Column("at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("next_try_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("claimed_until", TIME, nullable=True, comment="until then one process alone sends it"),
        sa.Column("done_at", TIME, nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False, comment="the alert's words at that moment"),
        sa.Column("remark", sa.Text(), nullable=True, comment="a person's comment, or why it is told again"),
        sa.Column(
            "taken_by",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'::jsonb"),
            nullable=False,
            comment="receivers that have it, by a hash",
        ),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True, comment="what it failed by last; never a URL"),
        sa.CheckConstraint(
            "kind IN ('new', 'escalated', 'acknowledged', 'resolved')", name=op.f("ck_notifications_kind")
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'sent', 'given_up', 'not_wanted')", name=op.f("ck_notifications_state")
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("fk_notifications_agent_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["agent_id", "alert_id"],
            ["alerts.agent_id", "alerts.id"],
            name=op.f("fk_notifications_agent_id_alert_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("agent_id", "id", name=op.f("pk_notifications")),
        sa.UniqueConstraint(
            "agent_id", "alert_id", "kind", "nth", name=op.f("uq_notifications_agent_id_alert_id_kind_nth")
        ),
    )
    op.create_index(
        op.f("ix_notifications_agent_id"), "notifications", ["agent_id"], unique=False, postgresql_where=WAITS
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_notifications_agent_id"), table_name="notifications", postgresql_where=WAITS)
    op.drop_table("notifications")
