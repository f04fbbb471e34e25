"""The day's bill: fleet and model, by UTC day."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import HELD
from fleetagent.adapters.postgres.tables import instances, spend
from fleetagent.domain.fleet import ENDED

COLUMNS = ("agent_id", "day", "kind", "usd", "tokens")


def booked(entries: sa.Select[Any]) -> Insert:
    """Add these entries, columns as in `COLUMNS`, to their days' sums."""
    new = insert(spend).from_select(COLUMNS, entries)
    return new.on_conflict_do_update(
        index_elements=["agent_id", "day", "kind"],
        set_={"usd": spend.c.usd + new.excluded.usd, "tokens": spend.c.tokens + new.excluded.tokens},
    )


async def book(connection: AsyncConnection, agent_id: int, day: date, kind: str, usd: Decimal) -> None:
    """Add to one day's sum."""
    entry = (agent_id, day, kind, usd, 0)
    values = [sa.literal(value, spend.c[name].type) for name, value in zip(COLUMNS, entry, strict=True)]
    await connection.execute(booked(sa.select(*values)))


_NOW = sa.bindparam("now", type_=instances.c.billed_until.type)
_A_DAY: sa.ColumnElement[timedelta] = sa.literal_column("interval '24 hours'", sa.Interval())
"""Written out: the driver would send one day, which is 23 or 25 hours where the session's zone changes its clock."""

_BILLABLE = (
    instances.c.agent_id == sa.bindparam("agent"),
    instances.c.phase.not_in(ENDED),
    instances.c.billed_until < _NOW,
)


def _fleet_entries() -> sa.Select[Any]:
    """What each UTC day's share is of what live machines cost since they were last billed."""
    since = instances.c.billed_until
    series = sa.func.generate_series(sa.func.date_trunc("day", since, "UTC"), _NOW, _A_DAY)
    midnights = series.table_valued(sa.column("midnight", since.type), name="midnights").render_derived()
    midnight = midnights.c.midnight
    time = sa.func.least(_NOW, midnight + _A_DAY) - sa.func.greatest(since, midnight)
    return (
        sa.select(
            instances.c.agent_id,
            sa.cast(sa.func.timezone("UTC", midnight), sa.Date).label("day"),
            sa.literal("fleet"),
            sa.func.sum(instances.c.usd_per_hour * sa.extract("epoch", time) / 3600),
            sa.literal(0),
        )
        .select_from(instances.join(midnights, sa.true()))
        .where(*_BILLABLE, midnight < _NOW)
        .group_by(instances.c.agent_id, sa.literal_column("day"))
    )


_BILLED = booked(_fleet_entries())
_BILLED_UNTIL = sa.update(instances).where(*_BILLABLE).values(billed_until=_NOW)


BILLED = sa.select(HELD.c.epoch).add_cte(
    booked(_fleet_entries().where(instances.c.agent_id == HELD.c.id)).cte("days_booked"),
    _BILLED_UNTIL.where(instances.c.agent_id == HELD.c.id).cte("machines_billed"),
)
"""The same as a statement for `Database.at_once`."""


async def bill_fleet(connection: AsyncConnection, agent_id: int, now: datetime) -> None:
    """Book what live machines cost since they were last billed, each day its share; the sum is the database's."""
    given = {"agent": agent_id, "now": now}
    await connection.execute(_BILLED, given)
    await connection.execute(_BILLED_UNTIL, given)
