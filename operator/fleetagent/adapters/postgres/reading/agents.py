"""Agents with what stands about them now."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import NOW
from fleetagent.adapters.postgres.reading.conversation import IN_PROMPT, SESSION
from fleetagent.adapters.postgres.reading.fleet import SAMPLE, TODAY, days_of
from fleetagent.adapters.postgres.reading.rows import View, view
from fleetagent.adapters.postgres.reading.runs import RUN
from fleetagent.adapters.postgres.tables import actions, agents, alerts, runs, samples, sessions, spend, wakes
from fleetagent.adapters.postgres.wishes import OPEN_OR_UNTOLD, WAITS
from fleetagent.domain.records import AgentKey
from fleetagent.domain.views import AgentRow, RunRow, SampleView, SessionView, SpendView


def _count(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    of_it = sa.select(sa.func.count()).select_from(table).where(table.c.agent_id == agents.c.id, *conditions)
    return of_it.scalar_subquery()


_STANDS = (
    agents.c.id.label("agent_id"),
    agents.c.namespace,
    agents.c.name,
    agents.c.uid,
    agents.c.deleted_at,
    agents.c.last_run_id,
    agents.c.next_scheduled_at,
    _count(alerts, alerts.c.state != "resolved", alerts.c.state == "open").label("open_alerts"),
    _count(actions, OPEN_OR_UNTOLD, WAITS, actions.c.expires_at > NOW).label("waiting_actions"),
    _count(wakes, wakes.c.state == "pending").label("pending_wakes"),
    TODAY.label("today"),
)
_AGENTS = sa.select(*_STANDS, *SESSION, IN_PROMPT).join(sessions, sessions.c.id == agents.c.session_id, isouter=True)

ROWS_AT_ONCE = 50

_EACH = sa.func.unnest(sa.bindparam("agents", type_=ARRAY(sa.BigInteger))).table_valued("id", name="each")


def _newest(table: sa.Table, columns: Sequence[sa.ColumnElement[Any]], key: sa.Column[Any]) -> sa.Select[Any]:
    """Of each agent its newest row, by one look at an index."""
    each = _EACH.render_derived()
    newest = sa.select(table.c.agent_id, *columns).where(table.c.agent_id == each.c.id)
    row = newest.order_by(key.desc()).limit(1).lateral("newest")
    return sa.select(row).select_from(each.join(row, sa.true()))


_LAST_RUNS = _newest(runs, RUN, runs.c.run_id)
_LAST_SAMPLES = _newest(samples, SAMPLE, samples.c.at)
_SPEND = sa.select(spend).where(
    spend.c.agent_id == sa.any_(sa.bindparam("agents", type_=ARRAY(sa.BigInteger))),
    spend.c.day == sa.bindparam("today", type_=sa.Date),
)


async def agent_id(connection: AsyncConnection, cluster: str, key: AgentKey) -> int | None:
    """The row of this name."""
    named = (agents.c.cluster == cluster, agents.c.namespace == key.namespace, agents.c.name == key.name)
    found: int | None = await connection.scalar(sa.select(agents.c.id).where(*named))
    return found


async def namespaces(connection: AsyncConnection, cluster: str) -> tuple[str, ...]:
    """Where agents live."""
    query = sa.select(agents.c.namespace).distinct().where(agents.c.cluster == cluster, agents.c.deleted_at.is_(None))
    return tuple((await connection.scalars(query.order_by(agents.c.namespace))).all())


async def agents_of(connection: AsyncConnection, *which: sa.ColumnElement[bool]) -> tuple[AgentRow, ...]:
    """By namespace and name."""
    query = _AGENTS.where(*which).order_by(agents.c.namespace, agents.c.name)
    found = (await connection.execute(query)).mappings().all()
    if not found:
        return ()
    given = {"agents": [row["agent_id"] for row in found], "today": found[0]["today"]}
    last_runs = {row["agent_id"]: row for row in (await connection.execute(_LAST_RUNS, given)).mappings()}
    last_samples = {row["agent_id"]: row for row in (await connection.execute(_LAST_SAMPLES, given)).mappings()}
    booked = defaultdict[int, list[sa.RowMapping]](list)
    for row in (await connection.execute(_SPEND, given)).mappings():
        booked[row["agent_id"]].append(row)
    listed: list[AgentRow] = []
    for row in found:
        if len(listed) % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)  # with a thousand agents this takes long enough for a run to notice
        listed.append(
            view(
                AgentRow,
                row,
                session=None if row["id"] is None else view(SessionView, row),
                last_run=_found(RunRow, last_runs, row),
                sample=_found(SampleView, last_samples, row),
                spend_today=_today(row, booked.get(row["agent_id"], ())),
            )
        )
    return tuple(listed)


def _found(kind: type[View], rows: Mapping[int, sa.RowMapping], agent: sa.RowMapping) -> View | None:
    return view(kind, rows[agent["agent_id"]]) if agent["agent_id"] in rows else None


def _today(agent: sa.RowMapping, booked: Sequence[sa.RowMapping]) -> SpendView:
    """What was not booked was not spent."""
    nothing = SpendView(day=agent["today"], fleet_usd=Decimal(0), model_usd=Decimal(0), model_tokens=0)
    return next(iter(days_of(booked)), nothing)
