"""Retention: old rows go in small batches, each in a short transaction that the lease fences."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.tables import (
    actions,
    agents,
    alerts,
    compactions,
    instances,
    messages,
    notifications,
    runs,
    samples,
    sessions,
    triggers,
    wakes,
)
from fleetagent.domain.conversation.messages import Kind
from fleetagent.domain.fleet import ENDED
from fleetagent.domain.records import ActionState, Lease
from fleetagent.domain.retention import Batch, Past, Place, TableSize

BATCH_ROWS = 1_000
MACHINE_REMEMBERED = timedelta(days=7)
"""A market may list a machine again that was gone: the ledger must still know that it was to be destroyed."""

UNSETTLED = (ActionState.INTENDED, ActionState.UNKNOWN, ActionState.WAITING)

_AGENT: sa.BindParameter[Any] = sa.bindparam("agent", type_=sa.BigInteger)
_OWNER: sa.BindParameter[Any] = sa.bindparam("owner", type_=sa.BigInteger)
_BEFORE: sa.BindParameter[Any] = sa.bindparam("before", type_=sa.DateTime(timezone=True))


@dataclass(frozen=True, slots=True)
class _Aging:
    """How one table grows old: rows of an owner in the order of `key`, begun at `at`; they may go once `over`."""

    table: sa.Table
    owner: sa.Column[Any]
    key: sa.Column[Any]
    at: sa.Column[Any]
    over: tuple[sa.ColumnElement[bool], ...] = ()


def _nowhere(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return ~sa.exists(sa.select(sa.literal(1)).select_from(table).where(*conditions))


def _has_none(table: sa.Table) -> sa.ColumnElement[bool]:
    """Whether a session has no row there, by one look at an index: an EXISTS may be planned as a walk through all."""
    column = table.c.session_id
    first = sa.select(sa.func.min(column)).where(column >= sessions.c.id).correlate(sessions).scalar_subquery()
    return first.is_distinct_from(sessions.c.id)


def _of_one(table: sa.Table, *over: sa.ColumnElement[bool], key: str = "id", at: str) -> _Aging:
    return _Aging(table, table.c.agent_id, table.c[key], table.c[at], over)


_newer = runs.alias("newer")
_this_session = sa.select(agents.c.session_id).where(agents.c.id == _AGENT).scalar_subquery()
_lives = instances.c.phase.not_in(ENDED)
_of_its_agent = instances.c.agent_id == actions.c.agent_id
_settled = sa.and_(
    actions.c.state.not_in(UNSETTLED),
    _nowhere(instances, _of_its_agent, instances.c.action_id == actions.c.id),
    _nowhere(instances, _of_its_agent, instances.c.label == actions.c.label, _lives),
)

_AGING: Mapping[Past, _Aging] = {
    Past.MESSAGES: _Aging(
        messages,
        messages.c.session_id,
        messages.c.seq,
        messages.c.at,
        (
            messages.c.left_prompt_because.is_not(None),
            sa.or_(messages.c.kind != Kind.FEEDBACK, messages.c.session_id != _this_session),
        ),
    ),
    Past.COMPACTIONS: _of_one(compactions, at="at"),
    Past.INSTANCES: _of_one(
        instances,
        ~_lives,
        instances.c.gone_at < sa.func.least(_BEFORE, sa.func.now() - MACHINE_REMEMBERED),
        at="requested_at",
    ),
    Past.RUNS: _of_one(
        runs,
        runs.c.state != "running",
        runs.c.run_id < sa.select(sa.func.max(_newer.c.run_id)).where(_newer.c.agent_id == _AGENT).scalar_subquery(),
        _nowhere(
            messages,
            messages.c.agent_id == runs.c.agent_id,
            messages.c.run_id == runs.c.run_id,
            messages.c.left_prompt_because.is_(None),
        ),
        _nowhere(actions, actions.c.agent_id == runs.c.agent_id, actions.c.run_id == runs.c.run_id, ~_settled),
        key="run_id",
        at="started_at",
    ),
    Past.ACTIONS: _of_one(
        actions,
        _settled,
        _nowhere(runs, runs.c.agent_id == actions.c.agent_id, runs.c.run_id == actions.c.run_id),
        at="created_at",
    ),
    Past.WAKES: _of_one(wakes, wakes.c.state != "pending", wakes.c.processed_at < _BEFORE, at="created_at"),
    Past.TRIGGERS: _of_one(triggers, triggers.c.state != "pending", triggers.c.processed_at < _BEFORE, at="at"),
    Past.ALERTS: _of_one(
        alerts,
        alerts.c.told_at.is_not(None),
        sa.or_(
            alerts.c.resolved_at < _BEFORE,
            # one of code's that is acknowledged must be known until it is over, or it would be raised again
            sa.and_(alerts.c.code == "Model", alerts.c.acknowledged_at < _BEFORE),
        ),
        at="created_at",
    ),
    Past.SAMPLES: _of_one(samples, key="at", at="at"),
    Past.SESSIONS: _of_one(
        sessions,
        sessions.c.ended_at < _BEFORE,
        *(_has_none(table) for table in (messages, runs, compactions)),
        key="epoch",
        at="started_at",
    ),
}


@cache
def _batch(what: Past, *, from_the_start: bool) -> sa.Select[Any]:
    """Look at the oldest rows after a place, and delete of these what may go: bounded, whatever the table holds."""
    aging = _AGING[what]
    rows = sa.select(aging.key.label("key"), (aging.at < _BEFORE).label("old")).where(aging.owner == _OWNER)
    if not from_the_start:
        rows = rows.where(aging.key > sa.bindparam("after", type_=aging.key.type))
    seen = rows.order_by(aging.key).limit(BATCH_ROWS).cte("seen")
    # As an array: for an IN, the planner may think it cheaper to read the whole table.
    old = sa.func.array(sa.select(seen.c.key).where(seen.c.old).scalar_subquery())
    gone = (
        sa.delete(aging.table)
        .where(aging.owner == _OWNER, aging.key == sa.any_(old), *aging.over)
        .returning(sa.literal(1).label("one"))
        .cte("gone")
    )
    return sa.select(
        sa.select(sa.func.count()).select_from(gone).scalar_subquery().label("deleted"),
        sa.func.count().label("seen"),
        sa.func.max(seen.c.key).label("last"),
        sa.func.coalesce(sa.func.bool_or(seen.c.old), sa.false()).label("some_old"),
    ).select_from(seen)


_NEXT_SESSION = sa.select(sa.func.min(sessions.c.id)).where(
    sessions.c.agent_id == _AGENT,
    sessions.c.id > sa.bindparam("after"),
    ~_has_none(messages),
)

_SIZES = sa.text(
    "SELECT relname, n_live_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables "
    "WHERE schemaname = current_schema() AND relname = ANY(:names)"
)


class PostgresAudit:
    """Implements `ports.Audit`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def prune(self, lease: Lease, what: Past, before: datetime, place: Place) -> Batch:
        """See `ports.Audit.prune`."""
        async with self._database.owned(lease) as connection:
            if what is Past.MESSAGES:
                return await _prune_messages(connection, lease.agent_id, before, place)
            row = await _prune_rows(connection, what, lease.agent_id, lease.agent_id, before, place)
        return Batch(row.deleted, (row.last,) if _goes_on(row) else None)

    async def sizes(self) -> Mapping[str, TableSize]:
        """See `ports.Audit.sizes`."""
        async with self._database.statements() as connection:
            rows = (await connection.execute(_SIZES, {"names": [*map(str, Past), notifications.name]})).all()
        return {row[0]: TableSize(row[1], row[2]) for row in rows}


async def _prune_messages(connection: AsyncConnection, agent_id: int, before: datetime, place: Place) -> Batch:
    """One session after the other; each of them grows old from its beginning."""
    session_id = place[0] if place else await _next_session(connection, agent_id, 0)
    if session_id is None:
        return Batch(0, None)
    row = await _prune_rows(connection, Past.MESSAGES, agent_id, session_id, before, place[1:])
    if _goes_on(row):
        return Batch(row.deleted, (session_id, row.last))
    later = await _next_session(connection, agent_id, session_id) if row.some_old else None
    return Batch(row.deleted, None if later is None else (later,))


async def _prune_rows(
    connection: AsyncConnection, what: Past, agent_id: int, owner: int, before: datetime, place: Place
) -> sa.Row[Any]:
    given = {"agent": agent_id, "owner": owner, "before": before}
    given |= {"after": place[0]} if place else {}
    needed = _batch(what, from_the_start=not place)
    row: sa.Row[Any] = (await connection.execute(needed, given)).one()
    return row


def _goes_on(row: sa.Row[Any]) -> bool:
    """A batch that was full and held old rows may not have been the last one that does."""
    return bool(row.seen == BATCH_ROWS and row.some_old)


async def _next_session(connection: AsyncConnection, agent_id: int, after: int) -> int | None:
    found: int | None = await connection.scalar(_NEXT_SESSION, {"agent": agent_id, "after": after})
    return found
