"""Runs from claim to conclusion, and what calls for them: triggers and wakes."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.alerts import PostgresAlerts
from fleetagent.adapters.postgres.database import NOW, fenced
from fleetagent.adapters.postgres.tables import TIME, USD, messages, runs, wakes
from fleetagent.adapters.postgres.waiting import (
    CALLED_BY_OWNER,
    close_interrupted,
    handled_by,
    pending_in,
    pending_triggers,
    pending_wakes,
    persist_trigger,
    wakes_in,
)
from fleetagent.domain.conversation.messages import Left
from fleetagent.domain.observation import Calls
from fleetagent.domain.records import HIGHEST_ID, Conclusion, Lease, Outcome, Run, RunReport
from fleetagent.domain.schedule import Pending, Trigger, Wake

# A claim and a conclusion are one statement each: every round trip of theirs is on the way of a run, or of a hundred.
_CLAIM = fenced(
    """numbered AS (
        UPDATE agents SET last_run_id = last_run_id + 1 FROM held WHERE agents.id = held.id
        RETURNING agents.id, agents.last_run_id, agents.session_id, agents.epoch
    ), called AS (
        UPDATE triggers SET claimed_by_run = last_run_id, tries = tries + 1 FROM numbered
        WHERE triggers.agent_id = numbered.id AND state = 'pending'
        RETURNING triggers.id, kind, value, words, at
    ), woken AS (
        UPDATE wakes SET claimed_by_run = last_run_id, tries = tries + 1 FROM numbered
        WHERE wakes.agent_id = numbered.id AND state = 'pending' AND at <= :now
        RETURNING wakes.id, at, reason, asked_by_run
    ), kinds AS (
        SELECT coalesce(jsonb_agg(kind ORDER BY array_position(CAST(:in_order AS text[]), kind)), '[]') AS kinds
        FROM (SELECT kind FROM called UNION SELECT 'Wake' FROM woken) AS each
    ), begun AS (
        INSERT INTO runs (agent_id, run_id, session_id, state, triggers, lease_token, started_at)
        SELECT id, last_run_id, session_id, 'running', kinds, :token, :now FROM numbered, kinds
    )
    SELECT epoch, last_run_id, session_id, kinds,
        (SELECT jsonb_agg(called) FROM called) AS called, (SELECT jsonb_agg(woken) FROM woken) AS woken
    FROM numbered, kinds
"""
).bindparams(sa.bindparam("now", type_=TIME))

_CONCLUDE = fenced(
    """mine AS (
        SELECT id FROM held WHERE epoch = :its_epoch
    ), ended AS (
        UPDATE runs SET state = 'finished', finished_at = clock_timestamp(), outcome = :outcome, reason = :reason,
            summary = :summary, verdict = :verdict, verdict_said = :verdict_said, quiet = :quiet, error = :error,
            model_calls = :model_calls, tokens_in = :tokens_in, tokens_out = :tokens_out,
            tokens_cached = :tokens_cached, usd = :usd
        FROM mine WHERE runs.agent_id = mine.id AND run_id = :run
    ), served AS (
        UPDATE triggers SET state = 'processed', processed_at = clock_timestamp()
        FROM mine WHERE triggers.agent_id = mine.id AND state = 'pending' AND claimed_by_run = :run
    ), woken AS (
        UPDATE wakes SET state = 'processed', processed_at = clock_timestamp()
        FROM mine WHERE wakes.agent_id = mine.id AND state = 'pending' AND claimed_by_run = :run
    ), told AS (
        UPDATE actions SET told_by_run = :run
        FROM mine WHERE actions.agent_id = mine.id AND actions.id = ANY(:told)
    ), left_out AS (
        UPDATE messages SET left_prompt_because = 'quiet'
        FROM mine WHERE :quiet AND messages.agent_id = mine.id AND run_id = :run AND left_prompt_because IS NULL
    ), projected AS (
        UPDATE sessions SET next_prompt_tokens = :next_prompt_tokens
        FROM mine WHERE :next_prompt_tokens IS NOT NULL AND sessions.agent_id = mine.id AND sessions.id = :session
    ), remembered AS (
        UPDATE agents SET handled = handled || :handled, quiet = CASE WHEN :keeps_looks THEN quiet ELSE :looks END,
            model_failing_since = CASE WHEN :model_failed THEN coalesce(model_failing_since, :started_at)
                WHEN NOT :model_failed THEN NULL ELSE model_failing_since END
        FROM mine WHERE agents.id = mine.id
    )
    SELECT epoch FROM held
"""
).bindparams(
    *(sa.bindparam(name, type_=sa.Text) for name in ("outcome", "reason", "summary", "error")),
    *(sa.bindparam(name, type_=sa.BigInteger) for name in ("run", "session", "its_epoch")),
    *(sa.bindparam(name, type_=sa.Boolean) for name in ("quiet", "keeps_looks", "model_failed")),
    *(sa.bindparam(name, type_=JSONB(none_as_null=True)) for name in ("verdict", "verdict_said", "handled", "looks")),
    sa.bindparam("told", type_=ARRAY(sa.BigInteger)),
    sa.bindparam("next_prompt_tokens", type_=sa.Integer),
    sa.bindparam("started_at", type_=TIME),
    sa.bindparam("usd", type_=USD),
)

WAKES_APART = timedelta(minutes=1)
"""Closer ones share a moment: each moment is a run."""


class PostgresRuns(PostgresAlerts):
    """Implements `ports.Runs`."""

    async def persist(self, agent_id: int, kind: Trigger, value: str, words: str | None = None) -> bool:
        """See `ports.Runs.persist`."""
        alone = kind is not Trigger.EVENT
        async with self._database.statements() if alone else self._database.transaction() as connection:
            return await persist_trigger(connection, agent_id, kind, value, words)

    async def persist_owned(self, lease: Lease, kind: Trigger, value: str) -> None:
        """See `ports.Runs.persist_owned`."""
        await self._database.at_once(CALLED_BY_OWNER, lease, {"its_kind": kind.value, "its_value": value})

    async def waiting(self, agent_id: int) -> tuple[tuple[Pending, ...], tuple[Wake, ...]]:
        """See `ports.Runs.waiting`."""
        async with self._database.statements() as connection:
            return await pending_triggers(connection, agent_id), await pending_wakes(connection, agent_id)

    async def interrupt_stale(self, lease: Lease) -> tuple[int, ...]:
        """See `ports.Runs.interrupt_stale`."""
        left = sa.select(runs.c.run_id).where(runs.c.agent_id == lease.agent_id, runs.c.state == "running")
        async with self._database.statements() as connection:
            if (await connection.execute(left.limit(1))).first() is None:
                return ()
        async with self._database.owned(lease) as connection:
            stale = tuple((await connection.scalars(left)).all())
            for run_id in stale:
                await _close(connection, lease.agent_id, run_id, "the process that ran it ended")
        return stale

    async def claim(self, lease: Lease, now: datetime) -> Run:
        """See `ports.Runs.claim`."""
        order = [kind.value for kind in Trigger]
        row = await self._database.at_once(_CLAIM, lease, {"now": now, "in_order": order})
        calls = Calls(tuple(map(Trigger, row.kinds)), pending_in(row.called), wakes_in(row.woken))
        return Run(lease, row.last_run_id, row.session_id, row.epoch, calls, now)

    async def conclude(self, run: Run, conclusion: Conclusion) -> None:
        """See `ports.Runs.conclude`."""
        quiet = None
        if conclusion.fingerprint is not None:
            quiet = {"fingerprint": conclusion.fingerprint, "at": run.started_at.isoformat()}
        given = {
            "run": run.run_id,
            "session": run.session_id,
            "started_at": run.started_at,
            "outcome": conclusion.outcome.value,
            "reason": conclusion.reason,
            "summary": conclusion.summary,
            "verdict": dict(conclusion.verdict),
            "verdict_said": dict(conclusion.verdict_said) if conclusion.verdict_said is not None else None,
            "quiet": conclusion.quiet,
            "error": conclusion.error,
            "model_calls": conclusion.model_calls,
            "tokens_in": conclusion.tokens_in,
            "tokens_out": conclusion.tokens_out,
            "tokens_cached": conclusion.tokens_cached,
            "usd": conclusion.usd,
            "told": list(conclusion.told),
            "next_prompt_tokens": conclusion.next_prompt_tokens,
            "handled": handled_by([(p.kind, p.value) for p in run.calls.pending]),
            "looks": quiet,
            "keeps_looks": conclusion.outcome is Outcome.SKIPPED,
            "model_failed": conclusion.model_failed,
        }
        await self._database.at_once(_CONCLUDE, run.lease, given, epoch=run.epoch)

    async def interrupt(self, run: Run, because: str, *, wanted: bool = False) -> None:
        """See `ports.Runs.interrupt`."""
        async with self._database.owned(run.lease) as connection:
            await _close(connection, run.agent_id, run.run_id, because, wanted=wanted)

    async def last(self, agent_id: int) -> RunReport | None:
        """See `ports.Runs.last`."""
        query = sa.select(runs).where(runs.c.agent_id == agent_id).order_by(runs.c.run_id.desc()).limit(1)
        async with self._database.statements() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else report(row)

    async def ask_wake(self, run: Run, at: datetime, reason: str, *, limit: int) -> Wake | None:
        """See `ports.Runs.ask_wake`."""
        at = _whole_second(at)
        async with self._database.in_session(run) as connection:
            pending = [w for w in await pending_wakes(connection, run.agent_id) if w.at > run.started_at]
            near = [w for w in pending if abs(w.at - at) < WAKES_APART]
            for wake in near:
                if wake.reason == reason:
                    return wake
            if len(pending) >= limit:
                return None
            at = near[0].at if near else at  # another reason shares the moment: each moment is a run of its own
            new = sa.insert(wakes).values(
                agent_id=run.agent_id, at=at, reason=reason, state="pending", asked_by_run=run.run_id
            )
            wake_id = await connection.scalar(new.returning(wakes.c.id))
        return Wake(wake_id or 0, at, reason, run.run_id)

    async def cancel_wake(self, run: Run, wake_id: int) -> bool:
        """See `ports.Runs.cancel_wake`."""
        if wake_id > HIGHEST_ID:  # a model may name any number; the database would refuse it with an error
            return False
        cancel = (
            sa.update(wakes)
            .where(wakes.c.agent_id == run.agent_id, wakes.c.id == wake_id, wakes.c.state == "pending")
            .values(state="cancelled", processed_at=NOW)
        )
        async with self._database.in_session(run) as connection:
            return (await connection.execute(cancel)).rowcount > 0


async def _leave_prompt(connection: AsyncConnection, agent_id: int, run_id: int, because: Left) -> None:
    await connection.execute(
        sa.update(messages)
        .where(messages.c.agent_id == agent_id, messages.c.run_id == run_id, messages.c.left_prompt_because.is_(None))
        .values(left_prompt_because=because)
    )


async def _close(
    connection: AsyncConnection, agent_id: int, run_id: int, because: str, *, wanted: bool = False
) -> None:
    if await close_interrupted(connection, agent_id, run_id, because, wanted=wanted):
        await _leave_prompt(connection, agent_id, run_id, Left.INTERRUPTED)


def _whole_second(at: datetime) -> datetime:
    """Never earlier than asked for: a wake must not fire before the least that the spec allows."""
    return at if not at.microsecond else at.replace(microsecond=0) + timedelta(seconds=1)


def report(row: sa.Row[Any]) -> RunReport:
    """A row of `runs` as reports show it."""
    return RunReport(
        run_id=row.run_id,
        triggers=tuple(row.triggers),
        started_at=row.started_at,
        finished_at=row.finished_at,
        outcome=row.outcome,
        summary=row.summary,
        error=row.error,
        reason=row.reason,
    )
