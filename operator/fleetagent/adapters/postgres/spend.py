"""The day's bill: fleet and model, by UTC day."""

from datetime import date
from decimal import Decimal

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
