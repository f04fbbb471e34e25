"""The day's bill: fleet and model, by UTC day."""

from datetime import date
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.tables import spend

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
