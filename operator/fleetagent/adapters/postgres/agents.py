"""Agents' rows: who they are, who owns them, which session runs."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.agent_rows import NAMED, ROW, UNDER_THE_LEASE, WAITING, record_of, report_in
from fleetagent.adapters.postgres.database import HELD, NOW, Database, is_our_schema
from fleetagent.adapters.postgres.tables import agents, messages, runs, sessions
from fleetagent.adapters.postgres.waiting import close_interrupted, forget_waiting, pending_in, wakes_in
from fleetagent.domain.records import AgentKey, AgentRecord, Lease, Taken
from fleetagent.errors import LeaseLost

UIDS_REMEMBERED = 100
WATCH_LAG = timedelta(minutes=15)
"""Longer than any watch lags: each is opened anew within minutes."""


_SCHEDULED = sa.select(HELD.c.epoch).add_cte(
    sa.update(agents)
    .where(agents.c.id == HELD.c.id)
    .values(
        next_scheduled_at=sa.bindparam("next_at", type_=agents.c.next_scheduled_at.type),
        spec_hash=sa.bindparam("hashed", type_=sa.Text),
    )
    .cte("scheduled")
)

_RELEASED = (
    sa.update(agents)
    .where(agents.c.id == sa.bindparam("agent"), agents.c.lease_token == sa.bindparam("token"))
    .values(lease_until=None, lease_owner=None)
)


class PostgresAgents:
    """Implements `ports.Agents`."""

    def __init__(
        self, database: Database, *, cluster: str, owner: str, lease: timedelta, watch_lag: timedelta = WATCH_LAG
    ) -> None:
        self._database = database
        self._cluster = cluster
        self._owner = owner
        self._watch_lag = watch_lag
        free = sa.or_(agents.c.lease_until.is_(None), agents.c.lease_until <= NOW, agents.c.lease_owner == owner)
        self._take_if_free = (
            sa.update(agents)
            .where(free, is_our_schema())
            .values(lease_owner=owner, lease_token=agents.c.lease_token + 1, lease_until=NOW + lease)
        )
        self._take = self._take_if_free.where(
            *NAMED,
            agents.c.uid == sa.bindparam("its_uid", type_=sa.Text),
            agents.c.session_id.is_not(None),
            agents.c.last_run_id >= sa.bindparam("floor", type_=sa.BigInteger),
            agents.c.deleted_at.is_(None),
        ).returning(agents)

    async def meet(self, key: AgentKey, uid: str, *, floor: int, handled: Mapping[str, str]) -> AgentRecord:
        """See `ports.Agents.meet`."""
        async with self._database.statements() as connection:  # as a rule there is nothing to do but to look
            row = await self._row(connection, key)
        deleted = row is not None and row.deleted_at is not None
        if row is None or row.session_id is None or row.uid != uid or row.last_run_id < floor or deleted:
            row = await self._prepared(key, uid, floor=floor, handled=handled)
        return record_of(key, row, row)

    async def _prepared(self, key: AgentKey, uid: str, *, floor: int, handled: Mapping[str, str]) -> sa.Row[Any]:
        async with self._database.transaction() as connection:
            row = await self._row(connection, key)
            if row is None or row.session_id is None:
                await self._introduce(connection, key, uid, handled)
                row = await self._row(connection, key)
            if row is not None and (row.uid != uid or row.deleted_at is not None):
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
        row: sa.Row[Any] | None = (await connection.execute(ROW, named)).one_or_none()
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
        known = sa.select(agents.c.uid, agents.c.past_uids, agents.c.deleted_at, NOW.label("now"))
        known = known.where(agents.c.id == agent_id)
        row = (await connection.execute(known.with_for_update(key_share=True))).one()
        if uid in row.past_uids and row.now - datetime.fromisoformat(row.past_uids[uid]) < self._watch_lag:
            raise LeaseLost("this resource was replaced by another one of the same name")
        if row.uid == uid and (row.deleted_at is None or row.now - row.deleted_at < self._watch_lag):
            return  # another process was first, or this one has not seen the end yet
        await _next_session(connection, agent_id)
        await forget_waiting(connection, agent_id)
        past = {k: v for k, v in {**row.past_uids, row.uid: row.now.isoformat()}.items() if k != uid}
        past = dict(sorted(past.items(), key=lambda item: item[1])[-UIDS_REMEMBERED:])
        reborn = {"uid": uid, "past_uids": past, "deleted_at": None}
        afresh = {"spec_hash": None, "next_scheduled_at": None, "quiet": None}
        fenced = {"lease_token": agents.c.lease_token + 1, "lease_owner": None, "lease_until": None}
        await connection.execute(sa.update(agents).where(agents.c.id == agent_id).values(**reborn, **afresh, **fenced))

    async def take(
        self, key: AgentKey, uid: str, *, floor: int, handled: Mapping[str, str], now: datetime
    ) -> Taken | None:
        """See `ports.Agents.take`."""
        taken = await self._taken(key, uid, floor, now)
        if taken is None:  # as a rule it is known, and free
            record = await self.meet(key, uid, floor=floor, handled=handled)
            if record.deleted:
                raise LeaseLost("the resource has been deleted to its end")
            taken = await self._taken(key, uid, floor, now)
        return taken

    async def _taken(self, key: AgentKey, uid: str, floor: int, now: datetime) -> Taken | None:
        its = {"in_cluster": self._cluster, "in_namespace": key.namespace, "named": key.name, "its_uid": uid}
        async with self._database.statements() as connection:
            row = (await connection.execute(self._take, {**its, "floor": floor})).one_or_none()
            if row is None:
                return None
            given = {"agent": row.id, "session": row.session_id, "now": now}
            # By itself: it sees what stood when the lease was taken.
            found = (await connection.execute(UNDER_THE_LEASE, given)).one()
        return Taken(
            Lease(row.id, row.lease_token),
            record_of(key, row, found),
            pending_in(found.pending),
            wakes_in(found.wakes),
            left_running=found.left_running,
            waited_too_long=found.waited_too_long,
            untold=found.untold,
            last=report_in(found.last_run),
        )

    async def waiting(self) -> frozenset[tuple[AgentKey, str]]:
        """See `ports.Agents.waiting`."""
        async with self._database.statements() as connection:
            rows = (await connection.execute(WAITING, {"its_cluster": self._cluster})).all()
        return frozenset((AgentKey(row.namespace, row.name), row.mark) for row in rows)

    async def take_lease(self, agent_id: int) -> Lease | None:
        """See `ports.Agents.take_lease`."""
        async with self._database.statements() as connection:
            take = self._take_if_free.where(agents.c.id == agent_id)
            token = await connection.scalar(take.returning(agents.c.lease_token))
        return None if token is None else Lease(agent_id, token)

    async def release(self, lease: Lease) -> None:
        """See `ports.Agents.release`."""
        async with self._database.statements() as connection:
            await connection.execute(_RELEASED, {"agent": lease.agent_id, "token": lease.token})

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
        await self._database.at_once(_SCHEDULED, lease, {"next_at": next_scheduled_at, "hashed": spec_hash})

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
