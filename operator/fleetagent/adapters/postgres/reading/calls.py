"""What calls for somebody: wakes for the agent, alerts for people."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.reading.cursors import cursor, no_cursor, place_in
from fleetagent.adapters.postgres.reading.rows import view
from fleetagent.adapters.postgres.reading.seek import Trail
from fleetagent.adapters.postgres.reading.walk import Walk, page_of
from fleetagent.adapters.postgres.tables import alerts, wakes
from fleetagent.domain.views import AlertView, Page, WakeView
from fleetagent.ports.reading import Slice

PENDING, RESOLVED = "pending", "resolved"

WAKE = (
    wakes.c.id,
    wakes.c.at,
    wakes.c.reason,
    wakes.c.state,
    wakes.c.asked_by_run,
    wakes.c.claimed_by_run,
    wakes.c.created_at,
)
ALERT = (
    alerts.c.id,
    alerts.c.run_id,
    alerts.c.code,
    alerts.c.severity,
    alerts.c.message,
    alerts.c.state,
    alerts.c.comment,
    alerts.c.created_at,
    alerts.c.acknowledged_at,
    alerts.c.resolved_at,
)
_WAKES = Trail("wakes", wakes.c.agent_id, wakes.c.id, wakes.c.created_at)
_ALERTS = Trail("alerts", alerts.c.agent_id, alerts.c.id, alerts.c.created_at)
_PENDING_WAKES = "wakes to come"


async def wakes_page(connection: AsyncConnection, agent_id: int, which: Slice, state: str | None) -> Page[WakeView]:
    """See `ports.Reading.wakes`."""
    if state == PENDING:
        return await _pending_wakes(connection, agent_id, which)
    wanted = () if state is None else (wakes.c.state == state,)
    rows, after = await page_of(connection, Walk(_WAKES, WAKE, wanted=wanted), agent_id, which)
    return Page(items=tuple(view(WakeView, row) for row in rows), next=after)


async def _pending_wakes(connection: AsyncConnection, agent_id: int, which: Slice) -> Page[WakeView]:
    """Soonest first; since and until speak of the moments that they are for."""
    limit = max(1, which.limit)
    query = sa.select(*WAKE).where(wakes.c.agent_id == agent_id, wakes.c.state == PENDING)
    if which.after is not None:
        query = query.where(sa.tuple_(wakes.c.at, wakes.c.id) > sa.tuple_(*_place(which.after)))
    if which.since is not None:
        query = query.where(wakes.c.at >= which.since)
    if which.until is not None:
        query = query.where(wakes.c.at < which.until)
    found = (await connection.execute(query.order_by(wakes.c.at, wakes.c.id).limit(limit + 1))).mappings().all()
    rows = found[:limit]
    after = cursor(_PENDING_WAKES, [rows[-1]["at"].isoformat(), rows[-1]["id"]]) if len(found) > limit else None
    return Page(items=tuple(view(WakeView, row) for row in rows), next=after)


def _place(after: str) -> tuple[sa.ColumnElement[datetime], sa.ColumnElement[int]]:
    at, wake_id = place_in(_PENDING_WAKES, after, str, int)
    try:
        moment = datetime.fromisoformat(str(at))
    except ValueError as error:
        raise no_cursor() from error
    if moment.tzinfo is None:
        raise no_cursor()
    return sa.literal(moment, wakes.c.at.type), sa.literal(int(wake_id), wakes.c.id.type)


async def alerts_page(connection: AsyncConnection, agent_id: int, which: Slice, state: str | None) -> Page[AlertView]:
    """See `ports.Reading.alerts`."""
    indexed: tuple[sa.ColumnElement[bool], ...] = ()
    wanted: tuple[sa.ColumnElement[bool], ...] = ()
    if state == RESOLVED:
        wanted = (alerts.c.state == state,)
    elif state is not None:  # an index finds those that are not over, however long ago they were raised
        indexed = (alerts.c.state != RESOLVED, alerts.c.state == state)
    walk = Walk(_ALERTS, ALERT, indexed=indexed, wanted=wanted)
    rows, after = await page_of(connection, walk, agent_id, which)
    return Page(items=tuple(view(AlertView, row) for row in rows), next=after)
