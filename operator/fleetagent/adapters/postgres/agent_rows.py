"""Agents' rows with their sessions, and what waits for them: the statements, and our words for what they give."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from fleetagent.adapters.postgres.tables import TIME, agents, alerts, messages, sessions
from fleetagent.domain.conversation.counts import counts_in
from fleetagent.domain.conversation.messages import Kind, Left
from fleetagent.domain.conversation.window import Calibration
from fleetagent.domain.records import AgentKey, AgentRecord, Quiet, RunReport, SessionRecord

NAMED = (
    agents.c.cluster == sa.bindparam("in_cluster"),
    agents.c.namespace == sa.bindparam("in_namespace"),
    agents.c.name == sa.bindparam("named"),
)


def _row_query() -> sa.Select[Any]:
    in_prompt = (
        sa.select(sa.func.count())
        .where(messages.c.session_id == sessions.c.id, messages.c.left_prompt_because.is_(None))
        .scalar_subquery()
    )
    dropped = (
        sa.select(sa.func.count())
        .where(
            messages.c.session_id == sessions.c.id,
            messages.c.kind == Kind.FEEDBACK,
            messages.c.left_prompt_because == Left.COMPACTED,
        )
        .scalar_subquery()
    )
    standing = alerts.c.agent_id == agents.c.id, alerts.c.state != "resolved"
    alerted = sa.select(sa.func.array_agg(alerts.c.code)).where(*standing).scalar_subquery()
    return (
        sa.select(
            agents,
            sessions.c.id.label("s_id"),
            sessions.c.epoch.label("s_epoch"),
            sessions.c.started_at,
            sessions.c.compactions,
            sessions.c.summary,
            sessions.c.masked_before_run,
            sessions.c.context_tokens,
            sessions.c.estimated_tokens,
            sessions.c.next_prompt_tokens,
            sessions.c.counts,
            in_prompt.label("in_prompt"),
            dropped.label("feedback_dropped"),
            alerted.label("alerted"),
        )
        .join(sessions, sessions.c.id == agents.c.session_id, isouter=True)
        .where(*NAMED)
    )


ROW = _row_query()
"""An agent with its session: read at each look, and put together once."""


UNDER_THE_LEASE = sa.text("""
    SELECT s.id AS s_id, s.epoch AS s_epoch, s.started_at, s.compactions, s.summary, s.masked_before_run,
        s.context_tokens, s.estimated_tokens, s.next_prompt_tokens, s.counts,
        (SELECT count(*) FROM messages WHERE session_id = s.id AND left_prompt_because IS NULL) AS in_prompt,
        (SELECT count(*) FROM messages
         WHERE session_id = s.id AND kind = 'feedback' AND left_prompt_because = 'compacted') AS feedback_dropped,
        (SELECT jsonb_agg(jsonb_build_object('id', id, 'kind', kind, 'value', value, 'words', words, 'at', at))
         FROM triggers WHERE agent_id = :agent AND state = 'pending') AS pending,
        (SELECT jsonb_agg(jsonb_build_object('id', id, 'at', at, 'reason', reason, 'asked_by_run', asked_by_run))
         FROM wakes WHERE agent_id = :agent AND state = 'pending') AS wakes,
        EXISTS (SELECT 1 FROM runs WHERE agent_id = :agent AND state = 'running') AS left_running,
        EXISTS (SELECT 1 FROM actions WHERE agent_id = :agent AND expires_at IS NOT NULL AND told_by_run IS NULL
                AND state = 'waiting' AND expires_at <= :now) AS waited_too_long,
        EXISTS (SELECT 1 FROM alerts WHERE agent_id = :agent AND told_at IS NULL) AS untold,
        (SELECT array_agg(code) FROM alerts WHERE agent_id = :agent AND state <> 'resolved') AS alerted,
        (SELECT to_jsonb(newest) FROM (
            SELECT run_id, triggers, started_at, finished_at, outcome, summary, error, reason
            FROM runs WHERE agent_id = :agent ORDER BY run_id DESC LIMIT 1) AS newest) AS last_run
    FROM sessions AS s WHERE s.id = :session
""").bindparams(
    *(sa.bindparam(name, type_=sa.BigInteger) for name in ("agent", "session")), sa.bindparam("now", type_=TIME)
)

WAITING = sa.text("""
    SELECT namespace, name, mark FROM agents JOIN (
        SELECT agent_id, 'trigger ' || max(id) AS mark
        FROM triggers WHERE state = 'pending' AND claimed_by_run IS NULL GROUP BY agent_id
        UNION ALL SELECT agent_id, 'wake ' || max(id)
        FROM wakes WHERE state = 'pending' AND claimed_by_run IS NULL AND at <= clock_timestamp() GROUP BY agent_id
        UNION ALL SELECT agent_id, 'alert ' || max(id) FROM alerts WHERE told_at IS NULL GROUP BY agent_id
        UNION ALL SELECT agent_id, 'run ' || run_id
        FROM runs JOIN agents AS its ON its.id = runs.agent_id
        WHERE state = 'running' AND (its.lease_until IS NULL OR its.lease_until <= clock_timestamp())
    ) AS calls ON calls.agent_id = agents.id
    WHERE cluster = :its_cluster AND deleted_at IS NULL
""").bindparams(sa.bindparam("its_cluster", type_=sa.Text))


def record_of(key: AgentKey, row: sa.Row[Any], its_session: sa.Row[Any]) -> AgentRecord:
    """Of the agent's row and its session's, which may be one."""
    quiet = row.quiet
    return AgentRecord(
        id=row.id,
        key=key,
        uid=row.uid,
        last_run_id=row.last_run_id,
        handled=row.handled,
        spec_hash=row.spec_hash,
        next_scheduled_at=row.next_scheduled_at,
        account_id=row.account_id,
        calibration={
            endpoint: Calibration(known["ratio"], samples=1, tail=known["tail"])
            for endpoint, known in row.calibration.items()
        },
        quiet=Quiet(quiet["fingerprint"], datetime.fromisoformat(quiet["at"])) if quiet else None,
        model_failing_since=row.model_failing_since,
        deleted=row.deleted_at is not None,
        session=SessionRecord(
            id=its_session.s_id,
            epoch=its_session.s_epoch,
            started_at=its_session.started_at,
            compactions=its_session.compactions,
            summary=its_session.summary,
            masked_before_run=its_session.masked_before_run,
            context_tokens=its_session.context_tokens,
            estimated_tokens=its_session.estimated_tokens,
            next_prompt_tokens=its_session.next_prompt_tokens,
            counts=counts_in(its_session.counts),
            messages_in_prompt=its_session.in_prompt,
            feedback_dropped=its_session.feedback_dropped,
        ),
        alerted=frozenset(its_session.alerted or ()),
    )


def report_in(row: Mapping[str, Any] | None) -> RunReport | None:
    """A run as the database makes JSON of it."""
    if row is None:
        return None
    return RunReport(
        run_id=row["run_id"],
        triggers=tuple(row["triggers"]),
        started_at=datetime.fromisoformat(row["started_at"]),
        finished_at=datetime.fromisoformat(row["finished_at"]) if row["finished_at"] else None,
        outcome=row["outcome"],
        summary=row["summary"],
        error=row["error"],
        reason=row["reason"],
    )
