"""The tables. A column called `run_id` holds the agent's own run number everywhere, so its key is (agent_id, run_id).

All times are `timestamptz` in UTC. Money is `numeric` USD. What a run decides or does is written with the lease's token
only. Without it are written: an agent's row when it is met (a re-creation archives the session), the lease itself,
triggers (those of schedule and spec aside), acknowledgements, approvals and rejections as they come in, alerts raised
or resolved by code, and what the worker endpoint records about its own machine. None of these spends money, and each is
safe to repeat.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

USD = Numeric(18, 9)
TIME = DateTime(timezone=True)
EMPTY = text("'{}'::jsonb")
NONE_YET = text("'[]'::jsonb")

# In tables that grow with each run, columns of a fixed width stand first: Postgres would pad them behind a text.


def _agent_id(*, primary: bool = False) -> Column[int]:
    owner = ForeignKey("agents.id", ondelete="CASCADE")
    return Column("agent_id", BigInteger, owner, nullable=False, primary_key=primary)


def _id() -> Column[int]:
    return Column("id", BigInteger, Identity(), primary_key=True)


def _id_of_agents() -> tuple[Column[int], Column[int]]:
    """A key whose index finds one agent's rows in the order in which they came."""
    return _agent_id(primary=True), _id()


agents = Table(
    "agents",
    metadata,
    _id(),
    Column("cluster", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("uid", Text, nullable=False, comment="of the resource; another one means that it was re-created"),
    Column("past_uids", JSONB, nullable=False, server_default=EMPTY, comment="who had this name, and until when"),
    Column("epoch", BigInteger, nullable=False, server_default="1", comment="rises with each session"),
    Column("session_id", BigInteger, nullable=True, comment="the session that runs now"),
    Column("last_run_id", BigInteger, nullable=False, server_default="0"),
    Column("last_machine", BigInteger, nullable=False, server_default="0", comment="the highest instances.number ever"),
    Column("lease_owner", Text),
    Column("lease_token", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", TIME),
    Column("handled", JSONB, nullable=False, server_default=EMPTY, comment="last served value of each annotation"),
    Column("spec_hash", Text),
    Column("next_scheduled_at", TIME),
    Column("account_id", Text, comment="the market's account that the machines belong to"),
    Column("calibration", JSONB, nullable=False, server_default=EMPTY, comment="token ratios by endpoint and model"),
    Column("quiet", JSONB, comment="fingerprint and time of the last quiet verdict"),
    Column("model_failing_since", TIME),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    Column("deleted_at", TIME),
    UniqueConstraint("cluster", "namespace", "name"),
)

sessions = Table(
    "sessions",
    metadata,
    _id(),
    _agent_id(),
    Column("epoch", BigInteger, nullable=False),
    Column("started_at", TIME, nullable=False, server_default=text("now()")),
    Column("ended_at", TIME),
    Column("last_seq", BigInteger, nullable=False, server_default="0"),
    Column("compactions", Integer, nullable=False, server_default="0"),
    Column("summary", Text, comment="of the runs that left; the prompt shows it as a user message"),
    Column("masked_before_run", BigInteger, nullable=False, server_default="0"),
    Column("context_tokens", Integer, comment="the backend's prompt_tokens of the last request"),
    Column("estimated_tokens", Integer, comment="what we had estimated for that request"),
    Column("next_prompt_tokens", Integer, comment="our estimate of the next one"),
    Column("counts", JSONB, comment="what the server's counts told; the next request is projected from them"),
    UniqueConstraint("agent_id", "epoch"),
)

runs = Table(
    "runs",
    metadata,
    _agent_id(primary=True),
    Column("run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("session_id", BigInteger, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("lease_token", BigInteger, nullable=False),
    Column("started_at", TIME, nullable=False, server_default=text("now()")),
    Column("finished_at", TIME),
    Column("tokens_in", BigInteger, nullable=False, server_default="0"),
    Column("tokens_out", BigInteger, nullable=False, server_default="0"),
    Column("tokens_cached", BigInteger, nullable=False, server_default="0"),
    Column("model_calls", Integer, nullable=False, server_default="0"),
    Column("quiet", Boolean, nullable=False, server_default=text("false")),
    Column("tokens_estimated", Boolean, nullable=False, server_default=text("false"), comment="a count was missing"),
    Column("usd", USD, nullable=False, server_default="0"),
    Column("state", Text, nullable=False),
    Column("triggers", JSONB, nullable=False, server_default=NONE_YET),
    Column("outcome", Text),
    Column("reason", Text, comment="one word for why it failed"),
    Column("summary", Text),
    Column("verdict", JSONB, comment="action and state_changed, as the ledger shows it"),
    Column("verdict_said", JSONB, comment="the same, as the model said it"),
    Column("error", Text),
    Index(None, "agent_id", postgresql_where=text("state = 'running'")),
    Index(None, "session_id"),
    CheckConstraint("state IN ('running', 'finished', 'interrupted')", "state"),
)

messages = Table(
    "messages",
    metadata,
    Column("session_id", BigInteger, ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False, comment="its place in the session"),
    _agent_id(),
    Column("run_id", BigInteger, nullable=False),
    Column("at", TIME, nullable=False, server_default=text("now()")),
    Column("tokens", Integer, nullable=False, server_default="0", comment="our estimate, for the audit"),
    Column("kind", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("history_content", Text, comment="what later runs see of it; null: all of it"),
    Column("tool_calls", JSONB, nullable=False, server_default=NONE_YET),
    Column("tool_call_id", Text),
    Column("left_prompt_because", Text),
    Index("ix_messages_in_prompt", "session_id", "seq", postgresql_where=text("left_prompt_because IS NULL")),
    Index(
        "ix_messages_feedback_dropped",
        "session_id",
        postgresql_where=text("kind = 'feedback' AND left_prompt_because = 'compacted'"),
    ),
    Index(None, "agent_id", "run_id"),
)

compactions = Table(
    "compactions",
    metadata,
    *_id_of_agents(),
    Column("session_id", BigInteger, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("run_id", BigInteger, nullable=False),
    Column("method", Text, nullable=False, comment="Masked, Summary or Digest"),
    Column("because", Text, comment="why the digest stepped in"),
    Column("runs_left", JSONB, nullable=False, server_default=NONE_YET),
    Column("masked_before_run", BigInteger, nullable=False, server_default="0"),
    Column("tokens_before", Integer, nullable=False),
    Column("tokens_after", Integer, nullable=False),
    Column("summary", Text),
    Column("at", TIME, nullable=False, server_default=text("now()")),
    Index(None, "session_id", "run_id"),
)

actions = Table(
    "actions",
    metadata,
    *_id_of_agents(),
    Column("run_id", BigInteger, nullable=False, comment="0: lifecycle or deletion, by code between runs"),
    Column("intent_key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("by", Text, nullable=False, comment="model, controller, lifecycle or deletion"),
    Column("args", JSONB, nullable=False, server_default=EMPTY),
    Column("state", Text, nullable=False),
    Column("refusal", JSONB, comment="code and sentence"),
    Column("error", Text),
    Column("label", Text),
    Column("provider_ref", Text),
    Column("usd_per_hour", USD),
    Column(
        "created_at", TIME, nullable=False, server_default=text("now()"), comment="of the intent; moves if it waited"
    ),
    Column("settled_at", TIME),
    Column("wish", JSONB, comment="machine, rate and offer as they were: of what waited, or was held back by DryRun"),
    Column("expires_at", TIME, comment="mode Approve: how long it may wait for a person; null: it never waited"),
    Column("approved_at", TIME, comment="when a person agreed"),
    Column("executed_by_run", BigInteger, comment="the run that took up the approval"),
    Column("told_by_run", BigInteger, comment="the run in which the agent was told what became of its waiting"),
    UniqueConstraint("intent_key"),
    Index(None, "agent_id", "run_id"),
    Index("ix_actions_untold", "agent_id", postgresql_where=text("expires_at IS NOT NULL AND told_by_run IS NULL")),
    Index(None, "agent_id", "executed_by_run", postgresql_where=text("executed_by_run IS NOT NULL")),
    Index(None, "agent_id", "created_at"),
    Index(None, "label", postgresql_where=text("label IS NOT NULL")),
    CheckConstraint("kind IN ('launch', 'stop')", "kind"),
    CheckConstraint(
        "state IN ('intended', 'done', 'failed', 'unknown', 'refused', 'waiting', 'rejected', 'expired')", "state"
    ),
)

wakes = Table(
    "wakes",
    metadata,
    *_id_of_agents(),
    Column("at", TIME, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("asked_by_run", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("claimed_by_run", BigInteger),
    Column("processed_at", TIME),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    Index(None, "agent_id", "at", postgresql_where=text("state = 'pending'")),
    CheckConstraint("state IN ('pending', 'processed', 'cancelled', 'dropped')", "state"),
)

triggers = Table(
    "triggers",
    metadata,
    *_id_of_agents(),
    Column("at", TIME, nullable=False, server_default=text("now()")),
    Column("claimed_by_run", BigInteger),
    Column("processed_at", TIME),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("kind", Text, nullable=False),
    Column("value", Text, nullable=False, comment="the annotation's value, or what makes two triggers one"),
    Column("words", Text, comment="what the model is told: feedback, or what happened to the fleet"),
    Column("state", Text, nullable=False),
    Index(None, "agent_id", postgresql_where=text("state = 'pending'")),
    Index(
        "ix_triggers_said_once",
        "agent_id",
        "kind",
        "value",
        unique=True,
        postgresql_where=text("state = 'pending' AND kind IN ('Request', 'Feedback', 'Approval')"),
    ),
    CheckConstraint("state IN ('pending', 'processed', 'dropped')", "state"),
)

alerts = Table(
    "alerts",
    metadata,
    *_id_of_agents(),
    Column("run_id", BigInteger, nullable=False),
    Column("code", Text, nullable=False, comment="one open alert per code; the model's own have the code Model"),
    Column("severity", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("comment", Text),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    Column("told_at", TIME, comment="when it became an Event"),
    Column("acknowledged_at", TIME),
    Column("resolved_at", TIME),
    Index(None, "agent_id", postgresql_where=text("state <> 'resolved'")),
    Index("ix_alerts_untold", "agent_id", postgresql_where=text("told_at IS NULL")),
    CheckConstraint("state IN ('open', 'acknowledged', 'resolved')", "state"),
)

notifications = Table(
    "notifications",
    metadata,
    *_id_of_agents(),
    Column("alert_id", BigInteger, nullable=False),
    Column("nth", Integer, nullable=False, server_default="0", comment="of an alert that is told again and again"),
    Column("at", TIME, nullable=False, server_default=text("now()")),
    Column("next_try_at", TIME, nullable=False, server_default=text("now()")),
    Column("claimed_until", TIME, comment="until then one process alone sends it"),
    Column("done_at", TIME),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="waiting"),
    Column("severity", Text, nullable=False),
    Column("message", Text, nullable=False, comment="the alert's words at that moment"),
    Column("remark", Text, comment="a person's comment, or why it is told again"),
    Column("taken_by", JSONB, nullable=False, server_default=NONE_YET, comment="receivers that have it, by a hash"),
    Column("claimed_by", Text),
    Column("error", Text, comment="what it failed by last; never a URL"),
    UniqueConstraint("agent_id", "alert_id", "kind", "nth"),
    Index(None, "agent_id", postgresql_where=text("state = 'waiting'")),
    ForeignKeyConstraint(["agent_id", "alert_id"], ["alerts.agent_id", "alerts.id"], ondelete="CASCADE"),
    CheckConstraint("kind IN ('new', 'escalated', 'acknowledged', 'resolved')", "kind"),
    CheckConstraint("state IN ('waiting', 'sent', 'given_up', 'not_wanted')", "state"),
)

instances = Table(
    "instances",
    metadata,
    *_id_of_agents(),
    Column("label", Text, nullable=False),
    Column("number", BigInteger, nullable=False, comment="m<number> is its alias; never given twice to one agent"),
    Column("provider_id", Text),
    Column("action_id", BigInteger, comment="the intent; null: adopted by its label"),
    Column("phase", Text, nullable=False),
    Column("phase_since", TIME, nullable=False),
    Column("timeline", JSONB, nullable=False, server_default=NONE_YET, comment="[[phase, time], …]"),
    Column("requested_at", TIME, nullable=False),
    Column("machine_id", Text, nullable=False),
    Column("gpu_name", Text, nullable=False),
    Column("num_gpus", Integer, nullable=False),
    Column("cpu_ram_gb", Float, nullable=False),
    Column("cpu_cores", Float, nullable=False),
    Column("usd_per_hour", USD, nullable=False),
    Column("expected_rate", Float, nullable=False, comment="proofs per hour"),
    Column("measured_rate", Float, comment="proofs per hour, by the worker's benchmark"),
    Column("min_rate", Integer, nullable=False, server_default="0"),
    Column("market_status", Text),
    Column("absent_count", Integer, nullable=False, server_default="0"),
    Column("absent_since", TIME),
    Column("confirmed_gone_at", TIME),
    Column("destroy_asked_at", TIME),
    Column("failure", Text),
    Column("told", JSONB, nullable=False, server_default=EMPTY, comment="what the agent has been told of it already"),
    Column("worker_token_hash", Text, comment="sha256 of the secret in its worker URL"),
    Column("worker_uuid", Text),
    Column("runner_id", BigInteger),
    Column("worker_label", Text, comment="what the worker called itself; recorded, never trusted"),
    Column("billed_until", TIME, nullable=False),
    Column("gone_at", TIME),
    UniqueConstraint("label"),
    Index(None, "agent_id", postgresql_where=text("phase NOT IN ('gone', 'failed')")),
    Index(None, "worker_token_hash"),
    Index(None, "agent_id", "action_id"),
    ForeignKeyConstraint(["agent_id", "action_id"], ["actions.agent_id", "actions.id"]),
)

hosts = Table(
    "hosts",
    metadata,
    _id(),
    _agent_id(),
    Column("machine_id", Text, nullable=False),
    Column("gpu_name", Text, nullable=False),
    Column("num_gpus", Integer, nullable=False),
    Column("cpu_ram_gb", Float, comment="our share of its memory when it was measured last"),
    Column("rates", JSONB, nullable=False, server_default=NONE_YET, comment="benchmarks, newest last"),
    Column("measured_at", TIME, comment="when the newest benchmark came"),
    Column("failures", Integer, nullable=False, server_default="0", comment="fewer with time, see failed_at"),
    Column("failed_at", TIME, comment="the last failure; earlier ones are forgiven from then on"),
    Column("excluded_until", TIME),
    Column("last_failure", Text),
    UniqueConstraint("agent_id", "machine_id", "gpu_name", "num_gpus"),
)

spend = Table(
    "spend",
    metadata,
    _agent_id(),
    Column("day", Date, nullable=False, comment="UTC"),
    Column("kind", Text, nullable=False),
    Column("usd", USD, nullable=False, server_default="0"),
    Column("tokens", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("agent_id", "day", "kind"),
    CheckConstraint("kind IN ('fleet', 'model')", "kind"),
)

samples = Table(
    "samples",
    metadata,
    _agent_id(primary=True),
    Column("at", TIME, primary_key=True),
    Column("proving", Integer, nullable=False),
    Column("on_the_way", Integer, nullable=False),
    Column("proofs_per_hour", Float, nullable=False),
    Column("projected_proofs_per_hour", Float, nullable=False),
    Column("target_proofs_per_hour", Float, nullable=False),
    Column("usd_per_hour", USD, nullable=False),
)
