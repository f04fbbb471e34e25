"""Agents' rows: who they are, who owns them, which session runs."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import NOW, Database
from fleetagent.adapters.postgres.tables import agents, messages, runs, sessions
from fleetagent.adapters.postgres.waiting import close_interrupted, forget_waiting
from fleetagent.domain.conversation.counts import counts_in
from fleetagent.domain.conversation.messages import Kind, Left
from fleetagent.domain.conversation.window import Calibration
from fleetagent.domain.records import AgentKey, AgentRecord, Lease, Quiet, SessionRecord
from fleetagent.errors import LeaseLost

UIDS_REMEMBERED = 100
WATCH_LAG = timedelta(minutes=15)
"""Longer than any watch lags: each is opened anew within minutes."""


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
        )
        .join(sessions, sessions.c.id == agents.c.session_id, isouter=True)
        .where(
            agents.c.cluster == sa.bindparam("in_cluster"),
            agents.c.namespace == sa.bindparam("in_namespace"),
            agents.c.name == sa.bindparam("named"),
        )
    )


_ROW = _row_query()
"""An agent with its session: read at each look, and put together once."""


class PostgresAgents:
    """Implements `ports.Agents`."""

    def __init__(
        self, database: Database, *, cluster: str, owner: str, lease: timedelta, watch_lag: timedelta = WATCH_LAG
    ) -> None:
        self._database = database
        self._cluster = cluster
        self._owner = owner
        self._lease = lease
        self._watch_lag = watch_lag

    async def meet(self, key: AgentKey, uid: str, *, floor: int, handled: Mapping[str, str]) -> AgentRecord:
        """See `ports.Agents.meet`."""
        async with self._database.statements() as connection:  # as a rule there is nothing to do but to look
            row = await self._row(connection, key)
        if row is None or row.session_id is None or row.uid != uid or row.last_run_id < floor:
            row = await self._prepared(key, uid, floor=floor, handled=handled)
        return _record(key, row)

    async def _prepared(self, key: AgentKey, uid: str, *, floor: int, handled: Mapping[str, str]) -> sa.Row[Any]:
        async with self._database.transaction() as connection:
            row = await self._row(connection, key)
            if row is None or row.session_id is None:
                await self._introduce(connection, key, uid, handled)
                row = await self._row(connection, key)
            if row is not None and row.uid != uid:
                await self._reborn(connection, row.id, uid)
                row = await self._row(connection, key)
            if row is not None and row.last_run_id < floor:
                raised = sa.update(agents).where(agents.c.id == row.id, agents.c.last_run_id < floor)
                await connection.execute(raised.values(last_run_id=floor))
                row = await self._row(connection, key)
        if row is None:
            raise LeaseLost("the agent's row vanished")
        return row

    async def _row(self, connection: AsyncConnection, key: AgentKey) -> sa.Row[Any] | None:
        named = {"in_cluster": self._cluster, "in_namespace": key.namespace, "named": key.name}
        row: sa.Row[Any] | None = (await connection.execute(_ROW, named)).one_or_none()
        return row

    async def _introduce(
        self, connection: AsyncConnection, key: AgentKey, uid: str, handled: Mapping[str, str]
    ) -> None:
        """Make the row and its first session; several processes may meet an agent at once."""
        new = insert(agents).values(
            cluster=self._cluster, namespace=key.namespace, name=key.name, uid=uid, handled=dict(handled)
        )
        await connection.execute(new.on_conflict_do_nothing())
        found = sa.select(agents.c.id, agents.c.session_id, agents.c.epoch).where(
            agents.c.cluster == self._cluster, agents.c.namespace == key.namespace, agents.c.name == key.name
        )
        row = (await connection.execute(found.with_for_update(key_share=True))).one()
        if row.session_id is None:
            await _open_session(connection, row.id, row.epoch)

    async def _reborn(self, connection: AsyncConnection, agent_id: int, uid: str) -> None:
        """The resource was deleted and made again: a new session, the same run counter and machines.

        Whoever still works for the one before loses its lease. A process whose watch lags may come with that one's
        uid: for a while it is not believed. Not for ever, since a cluster can be restored to what it was.
        """
        known = sa.select(agents.c.uid, agents.c.past_uids, NOW.label("now")).where(agents.c.id == agent_id)
        row = (await connection.execute(known.with_for_update(key_share=True))).one()
        if uid in row.past_uids and row.now - datetime.fromisoformat(row.past_uids[uid]) < self._watch_lag:
            raise LeaseLost("this resource was replaced by another one of the same name")
        if row.uid == uid:
            return
        await _next_session(connection, agent_id)
        await forget_waiting(connection, agent_id)
        past = {k: v for k, v in row.past_uids.items() if k != uid} | {row.uid: row.now.isoformat()}
        past = dict(sorted(past.items(), key=lambda item: item[1])[-UIDS_REMEMBERED:])
        reborn = {"uid": uid, "past_uids": past, "deleted_at": None}
        afresh = {"spec_hash": None, "next_scheduled_at": None, "quiet": None}
        fenced = {"lease_token": agents.c.lease_token + 1, "lease_owner": None, "lease_until": None}
        await connection.execute(sa.update(agents).where(agents.c.id == agent_id).values(**reborn, **afresh, **fenced))

    async def take_lease(self, agent_id: int) -> Lease | None:
        """See `ports.Agents.take_lease`."""
        free = sa.or_(agents.c.lease_until.is_(None), agents.c.lease_until <= NOW, agents.c.lease_owner == self._owner)
        take = (
            sa.update(agents)
            .where(agents.c.id == agent_id, free)
            .values(lease_owner=self._owner, lease_token=agents.c.lease_token + 1, lease_until=NOW + self._lease)
            .returning(agents.c.lease_token)
        )
        async with self._database.statements() as connection:
            token = await connection.scalar(take)
        return None if token is None else Lease(agent_id, token)

    async def renew(self, lease: Lease) -> None:
        """See `ports.Agents.renew`."""
        async with self._database.owned(lease) as connection:
            await connection.execute(
                sa.update(agents).where(agents.c.id == lease.agent_id).values(lease_until=NOW + self._lease)
            )

    async def release(self, lease: Lease) -> None:
        """See `ports.Agents.release`."""
        async with self._database.statements() as connection:
            await connection.execute(
                sa.update(agents)
                .where(agents.c.id == lease.agent_id, agents.c.lease_token == lease.token)
                .values(lease_until=None, lease_owner=None)
            )

    async def check(self, lease: Lease) -> None:
        """See `ports.Agents.check`."""
        async with self._database.owned(lease):
            pass

    async def start_session(self, lease: Lease, handled: Mapping[str, str]) -> None:
        """See `ports.Agents.start_session`."""
        async with self._database.owned(lease) as connection:
            await _next_session(connection, lease.agent_id)
            await connection.execute(
                sa.update(agents)
                .where(agents.c.id == lease.agent_id)
                .values(handled=agents.c.handled.concat(dict(handled)), quiet=None)
            )

    async def mark_handled(self, lease: Lease, handled: Mapping[str, str]) -> None:
        """See `ports.Agents.mark_handled`."""
        await self._set(lease, handled=agents.c.handled.concat(dict(handled)))

    async def schedule(self, lease: Lease, next_scheduled_at: datetime | None, spec_hash: str) -> None:
        """See `ports.Agents.schedule`."""
        await self._set(lease, next_scheduled_at=next_scheduled_at, spec_hash=spec_hash)

    async def remember_account(self, lease: Lease, account_id: str, *, instead_of: str | None) -> None:
        """See `ports.Agents.remember_account`."""
        async with self._database.owned(lease) as connection:
            await connection.execute(
                sa.update(agents)
                .where(agents.c.id == lease.agent_id, agents.c.account_id.is_not_distinct_from(instead_of))
                .values(account_id=account_id)
            )

    async def _set(self, lease: Lease, **values: object) -> None:
        async with self._database.owned(lease) as connection:
            await connection.execute(sa.update(agents).where(agents.c.id == lease.agent_id).values(**values))

    async def forget(self, lease: Lease, uid: str) -> None:
        """See `ports.Agents.forget`."""
        this_one = (agents.c.id == lease.agent_id, agents.c.uid == uid)
        ended = sa.update(agents).where(*this_one).values(deleted_at=NOW, next_scheduled_at=None)
        async with self._database.owned(lease) as connection:
            if (await connection.execute(ended)).rowcount:
                await forget_waiting(connection, lease.agent_id)


async def _open_session(connection: AsyncConnection, agent_id: int, epoch: int) -> None:
    new = sa.insert(sessions).values(agent_id=agent_id, epoch=epoch).returning(sessions.c.id)
    session_id = await connection.scalar(new)
    await connection.execute(sa.update(agents).where(agents.c.id == agent_id).values(session_id=session_id))


async def _next_session(connection: AsyncConnection, agent_id: int) -> None:
    """Archive what runs and open the next; a run in flight is marked, so that nobody takes it for alive."""
    old = sa.select(agents.c.session_id, agents.c.epoch).where(agents.c.id == agent_id)
    row = (await connection.execute(old.with_for_update(key_share=True))).one()
    running = sa.select(runs.c.run_id).where(runs.c.agent_id == agent_id, runs.c.state == "running")
    if row.session_id is not None:
        await connection.execute(sa.update(sessions).where(sessions.c.id == row.session_id).values(ended_at=NOW))
        await connection.execute(
            sa.update(messages)
            .where(messages.c.session_id == row.session_id, messages.c.left_prompt_because.is_(None))
            .values(left_prompt_because="reset")
        )
    for run_id in (await connection.scalars(running)).all():
        await close_interrupted(connection, agent_id, run_id, "the session was reset")
    await connection.execute(sa.update(agents).where(agents.c.id == agent_id).values(epoch=row.epoch + 1))
    await _open_session(connection, agent_id, row.epoch + 1)


def _record(key: AgentKey, row: sa.Row[Any]) -> AgentRecord:
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
            id=row.s_id,
            epoch=row.s_epoch,
            started_at=row.started_at,
            compactions=row.compactions,
            summary=row.summary,
            masked_before_run=row.masked_before_run,
            context_tokens=row.context_tokens,
            estimated_tokens=row.estimated_tokens,
            next_prompt_tokens=row.next_prompt_tokens,
            counts=counts_in(row.counts),
            messages_in_prompt=row.in_prompt,
            feedback_dropped=row.feedback_dropped,
        ),
    )
