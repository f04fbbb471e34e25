"""Runs from claim to conclusion, and what calls for them: triggers and wakes."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import NOW, Database
from fleetagent.adapters.postgres.tables import actions, agents, alerts, messages, runs, sessions, wakes
from fleetagent.adapters.postgres.waiting import (
    claim_waiting,
    close_interrupted,
    pending_triggers,
    pending_wakes,
    persist_trigger,
    serve,
)
from fleetagent.domain.conversation.messages import Left
from fleetagent.domain.observation import Alert, Calls
from fleetagent.domain.records import Conclusion, Lease, Outcome, Run, RunReport
from fleetagent.domain.schedule import Pending, Trigger, Wake

HIGHEST_ID = 2**63 - 1
"""A model may name any number; the database would refuse this one with an error."""


class PostgresRuns:
    """Implements `ports.Runs`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def persist(self, agent_id: int, kind: Trigger, value: str, words: str | None = None) -> bool:
        """See `ports.Runs.persist`."""
        async with self._database.transaction() as connection:
            return await persist_trigger(connection, agent_id, kind, value, words)

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
        async with self._database.owned(lease) as connection:
            agent = (
                await connection.execute(
                    sa.update(agents)
                    .where(agents.c.id == lease.agent_id)
                    .values(last_run_id=agents.c.last_run_id + 1)
                    .returning(agents.c.last_run_id, agents.c.session_id, agents.c.epoch)
                )
            ).one()
            pending, due = await claim_waiting(connection, lease.agent_id, agent.last_run_id, now)
            called = {p.kind for p in pending} | ({Trigger.WAKE} if due else set())
            in_order = tuple(t for t in Trigger if t in called)
            await connection.execute(
                sa.insert(runs).values(
                    agent_id=lease.agent_id,
                    run_id=agent.last_run_id,
                    session_id=agent.session_id,
                    state="running",
                    triggers=[t.value for t in in_order],
                    lease_token=lease.token,
                    started_at=now,
                )
            )
        calls = Calls(in_order, pending, due)
        return Run(lease, agent.last_run_id, agent.session_id, agent.epoch, calls, now)

    async def conclude(self, run: Run, conclusion: Conclusion) -> None:
        """See `ports.Runs.conclude`."""
        own = (runs.c.agent_id == run.agent_id, runs.c.run_id == run.run_id)
        async with self._database.in_session(run) as connection:
            await connection.execute(
                sa.update(runs)
                .where(*own)
                .values(
                    state="finished",
                    outcome=conclusion.outcome,
                    reason=conclusion.reason,
                    summary=conclusion.summary,
                    verdict=dict(conclusion.verdict),
                    verdict_said=dict(conclusion.verdict_said) if conclusion.verdict_said is not None else None,
                    quiet=conclusion.quiet,
                    error=conclusion.error,
                    model_calls=conclusion.model_calls,
                    tokens_in=conclusion.tokens_in,
                    tokens_out=conclusion.tokens_out,
                    tokens_cached=conclusion.tokens_cached,
                    usd=conclusion.usd,
                    finished_at=NOW,
                )
            )
            await serve(connection, run.agent_id, run.run_id, run.calls.pending)
            if conclusion.told:
                told = sa.update(actions).where(actions.c.agent_id == run.agent_id, actions.c.id.in_(conclusion.told))
                await connection.execute(told.values(told_by_run=run.run_id))
            if conclusion.quiet:
                await _leave_prompt(connection, run.agent_id, run.run_id, Left.QUIET)
            if conclusion.next_prompt_tokens is not None:
                await connection.execute(
                    sa.update(sessions)
                    .where(sessions.c.id == run.session_id)
                    .values(next_prompt_tokens=conclusion.next_prompt_tokens)
                )
            values: dict[str, Any] = {"quiet": None}
            if conclusion.fingerprint is not None:
                values["quiet"] = {"fingerprint": conclusion.fingerprint, "at": run.started_at.isoformat()}
            if conclusion.outcome is Outcome.SKIPPED:
                del values["quiet"]
            if conclusion.model_failed is False:
                values["model_failing_since"] = None
            elif conclusion.model_failed:
                values["model_failing_since"] = sa.func.coalesce(agents.c.model_failing_since, run.started_at)
            if values:
                await connection.execute(sa.update(agents).where(agents.c.id == run.agent_id).values(**values))

    async def interrupt(self, run: Run, because: str) -> None:
        """See `ports.Runs.interrupt`."""
        async with self._database.owned(run.lease) as connection:
            await _close(connection, run.agent_id, run.run_id, because)

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
            for wake in pending:
                if wake.reason == reason and abs((wake.at - at).total_seconds()) < 60:
                    return wake
            if len(pending) >= limit:
                return None
            new = sa.insert(wakes).values(
                agent_id=run.agent_id, at=at, reason=reason, state="pending", asked_by_run=run.run_id
            )
            wake_id = await connection.scalar(new.returning(wakes.c.id))
        return Wake(wake_id or 0, at, reason, run.run_id)

    async def cancel_wake(self, run: Run, wake_id: int) -> bool:
        """See `ports.Runs.cancel_wake`."""
        if wake_id > HIGHEST_ID:
            return False
        cancel = (
            sa.update(wakes)
            .where(wakes.c.agent_id == run.agent_id, wakes.c.id == wake_id, wakes.c.state == "pending")
            .values(state="cancelled", processed_at=NOW)
        )
        async with self._database.in_session(run) as connection:
            return (await connection.execute(cancel)).rowcount > 0

    async def acknowledge(self, agent_id: int, alert_id: int, comment: str, value: str) -> str:
        """See `ports.Runs.acknowledge`."""
        close = (
            sa.update(alerts)
            .where(alerts.c.agent_id == agent_id, alerts.c.id == alert_id, alerts.c.state == "open")
            .values(state="acknowledged", acknowledged_at=NOW, comment=comment)
            .returning(alerts.c.severity, alerts.c.message)
        )
        known = sa.select(alerts.c.severity, alerts.c.message, alerts.c.state).where(
            alerts.c.agent_id == agent_id, alerts.c.id == alert_id
        )
        async with self._database.transaction() as connection:
            row = (await connection.execute(close)).one_or_none() or (await connection.execute(known)).one_or_none()
            about = f"({row.severity}: {row.message})" if row is not None else "(unknown)"
            words = f"The operator acknowledges alert-{alert_id} {about}" + (f": {comment}" if comment else ".")
            await persist_trigger(connection, agent_id, Trigger.FEEDBACK, value, words)
        return words

    async def raise_alert(self, agent_id: int, run_id: int, code: str, severity: str, message: str) -> int | None:
        """See `ports.Runs.raise_alert`."""
        same = [alerts.c.agent_id == agent_id, alerts.c.code == code]
        if code == "Model":
            same += [alerts.c.state == "open", alerts.c.message == message]
        else:  # somebody who has acknowledged it knows of it, until it is over
            same.append(alerts.c.state.in_(("open", "acknowledged")))
        new = sa.insert(alerts).values(
            agent_id=agent_id, run_id=run_id, code=code, severity=severity, message=message, state="open"
        )
        async with self._database.transaction() as connection:
            stands = (await connection.execute(sa.select(alerts.c.id, alerts.c.message).where(*same).limit(1))).first()
            if stands is None:
                alert_id: int | None = await connection.scalar(new.returning(alerts.c.id))
                return alert_id
            if stands.message != message:  # the same trouble; its figures and machines are those of now
                words = sa.update(alerts).where(alerts.c.agent_id == agent_id, alerts.c.id == stands.id)
                await connection.execute(words.values(message=message))
        return None

    async def tell_alerts(self, lease: Lease) -> tuple[Alert, ...]:
        """See `ports.Runs.tell_alerts`."""
        untold = (alerts.c.agent_id == lease.agent_id, alerts.c.told_at.is_(None))
        async with self._database.statements() as connection:  # nearly always there is none: no lock for that
            if (await connection.execute(sa.select(alerts.c.id).where(*untold).limit(1))).first() is None:
                return ()
        tell = sa.update(alerts).where(*untold).values(told_at=NOW)
        tell_them = tell.returning(alerts.c.id, alerts.c.code, alerts.c.severity, alerts.c.message)
        async with self._database.owned(lease) as connection:
            rows = (await connection.execute(tell_them)).all()
        return tuple(sorted((Alert(*row) for row in rows), key=lambda alert: alert.id))

    async def resolve_alerts(self, agent_id: int, code: str) -> None:
        """See `ports.Runs.resolve_alerts`."""
        async with self._database.statements() as connection:
            await connection.execute(
                sa.update(alerts)
                .where(
                    alerts.c.agent_id == agent_id, alerts.c.code == code, alerts.c.state.in_(("open", "acknowledged"))
                )
                .values(state="resolved", resolved_at=NOW)
            )


async def _leave_prompt(connection: AsyncConnection, agent_id: int, run_id: int, because: Left) -> None:
    await connection.execute(
        sa.update(messages)
        .where(messages.c.agent_id == agent_id, messages.c.run_id == run_id, messages.c.left_prompt_because.is_(None))
        .values(left_prompt_because=because)
    )


async def _close(connection: AsyncConnection, agent_id: int, run_id: int, because: str) -> None:
    if await close_interrupted(connection, agent_id, run_id, because):
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
