"""The ledger's actions, those that wait for a person among them."""

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.reading.rows import view
from fleetagent.adapters.postgres.reading.seek import CLOCKS_APART, Trail
from fleetagent.adapters.postgres.reading.walk import Walk, page_of
from fleetagent.adapters.postgres.tables import actions
from fleetagent.adapters.postgres.wishes import OPEN_OR_UNTOLD, WAITS
from fleetagent.domain.approval import APPROVED_FOR
from fleetagent.domain.records import ActionState
from fleetagent.domain.views import ActionView, Page
from fleetagent.ports.reading import Slice

LONGEST_WAIT = timedelta(hours=24) + APPROVED_FOR
"""An action that waited gets the time at which it begins: by at most so much it is later than its place says."""

ACTION = (
    actions.c.id,
    actions.c.run_id,
    actions.c.kind,
    actions.c.by,
    actions.c.state,
    actions.c.args,
    actions.c.refusal["code"].astext.label("refusal_code"),
    actions.c.refusal["sentence"].astext.label("refusal"),
    actions.c.error,
    actions.c.label,
    actions.c.provider_ref,
    actions.c.usd_per_hour,
    actions.c.wish["what"].astext.label("what"),
    sa.cast(actions.c.wish["proofs_per_hour"].astext, sa.Float).label("proofs_per_hour"),
    actions.c.created_at,
    actions.c.settled_at,
    actions.c.expires_at,
    actions.c.approved_at,
    actions.c.executed_by_run,
)
_ACTIONS = Trail(
    "actions", actions.c.agent_id, actions.c.id, actions.c.created_at, disorder=CLOCKS_APART + LONGEST_WAIT
)


def _of_run(run_id: int) -> sa.ColumnElement[bool]:
    """What it asked for, and what had waited and it took up."""
    return sa.or_(actions.c.run_id == run_id, actions.c.executed_by_run == run_id)


async def actions_page(
    connection: AsyncConnection, agent_id: int, which: Slice, run_id: int | None, states: Sequence[str]
) -> Page[ActionView]:
    """See `ports.Reading.actions`."""
    indexed, wanted = [], []
    if run_id is not None:
        indexed.append(_of_run(run_id))
    if set(states) == {ActionState.WAITING.value}:
        indexed += [OPEN_OR_UNTOLD, WAITS]
    elif states:
        wanted.append(actions.c.state.in_(sorted(set(states))))
    walk = Walk(_ACTIONS, ACTION, indexed=indexed, wanted=wanted)
    rows, after = await page_of(connection, walk, agent_id, which)
    return Page(items=tuple(view(ActionView, row) for row in rows), next=after)


async def actions_of_run(connection: AsyncConnection, agent_id: int, run_id: int) -> tuple[ActionView, ...]:
    """All of a run, in order."""
    query = sa.select(*ACTION).where(actions.c.agent_id == agent_id, _of_run(run_id)).order_by(actions.c.id)
    return tuple(view(ActionView, row) for row in (await connection.execute(query)).mappings())
