"""Runs, and all that belongs to one."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.reading.actions import actions_of_run
from fleetagent.adapters.postgres.reading.conversation import compactions_of, messages_of_run
from fleetagent.adapters.postgres.reading.rows import view
from fleetagent.adapters.postgres.reading.seek import Trail
from fleetagent.adapters.postgres.reading.walk import Walk, page_of
from fleetagent.adapters.postgres.tables import actions, runs
from fleetagent.domain.records import ActionState
from fleetagent.domain.views import Page, RunRow, RunView
from fleetagent.ports.reading import Slice


def _actions(*conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    """Those that the run asked for, and those that had waited and it took up."""
    of_it = sa.or_(actions.c.run_id == runs.c.run_id, actions.c.executed_by_run == runs.c.run_id)
    query = sa.select(sa.func.count()).select_from(actions)
    return query.where(actions.c.agent_id == runs.c.agent_id, of_it, *conditions).scalar_subquery()


RUN: tuple[sa.ColumnElement[Any], ...] = (
    runs.c.run_id,
    runs.c.session_id,
    runs.c.state,
    runs.c.triggers,
    runs.c.started_at,
    runs.c.finished_at,
    runs.c.outcome,
    runs.c.reason,
    runs.c.summary,
    runs.c.error,
    runs.c.quiet,
    runs.c.model_calls,
    runs.c.tokens_in,
    runs.c.tokens_out,
    runs.c.tokens_cached,
    runs.c.tokens_estimated,
    runs.c.usd,
    _actions(actions.c.state != ActionState.REFUSED).label("actions"),
    _actions(actions.c.state == ActionState.REFUSED).label("refusals"),
)
_RUNS = Trail("runs", runs.c.agent_id, runs.c.run_id, runs.c.started_at)


async def runs_page(
    connection: AsyncConnection, agent_id: int, which: Slice, outcome: str | None, trigger: str | None
) -> Page[RunRow]:
    """See `ports.Reading.runs`."""
    wanted = []
    if outcome is not None:
        wanted.append(runs.c.outcome == outcome)
    if trigger is not None:
        wanted.append(runs.c.triggers.contains([trigger]))
    rows, after = await page_of(connection, Walk(_RUNS, RUN, wanted=wanted), agent_id, which)
    return Page(items=tuple(view(RunRow, row) for row in rows), next=after)


async def run_of(connection: AsyncConnection, agent_id: int, run_id: int) -> RunView | None:
    """See `ports.Reading.run`."""
    query = sa.select(*RUN, runs.c.verdict, runs.c.verdict_said)
    query = query.where(runs.c.agent_id == agent_id, runs.c.run_id == run_id)
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        return None
    return RunView(
        run=view(RunRow, row),
        verdict=row["verdict"],
        verdict_said=row["verdict_said"],
        actions=await actions_of_run(connection, agent_id, run_id),
        messages=await messages_of_run(connection, agent_id, run_id),
        compactions=await compactions_of(connection, row["session_id"], run_id),
    )
