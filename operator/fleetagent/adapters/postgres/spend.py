"""The day's bill: fleet and model, by UTC day."""

from datetime import date
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.tables import spend


async def book(connection: AsyncConnection, agent_id: int, day: date, kind: str, usd: Decimal, tokens: int = 0) -> None:
    """Add to one day's sum."""
    new = insert(spend).values(agent_id=agent_id, day=day, kind=kind, usd=usd, tokens=tokens)
    await connection.execute(
        new.on_conflict_do_update(
            index_elements=["agent_id", "day", "kind"],
            set_={"usd": spend.c.usd + new.excluded.usd, "tokens": spend.c.tokens + new.excluded.tokens},
        )
    )


async def on_day(connection: AsyncConnection, agent_id: int, day: date) -> dict[str, tuple[Decimal, int]]:
    """USD and tokens of one day, by kind."""
    query = sa.select(spend.c.kind, spend.c.usd, spend.c.tokens).where(spend.c.agent_id == agent_id, spend.c.day == day)
    return {r.kind: (r.usd, r.tokens) for r in (await connection.execute(query)).all()}
