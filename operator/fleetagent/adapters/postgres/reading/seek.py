"""The place of a moment in a table whose rows were written in the order of their keys: no index by time is needed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.tables import TIME

CLOCKS_APART = timedelta(minutes=10)
"""So much may a row's time differ from its place: processes take turns, each with a clock of its own."""


@dataclass(frozen=True, slots=True)
class Trail:
    """The rows of one owner in the order in which they came."""

    name: str
    owner: sa.Column[Any]
    key: sa.Column[Any]
    at: sa.Column[Any]
    disorder: timedelta = CLOCKS_APART

    @property
    def table(self) -> sa.FromClause:
        """Where they stand."""
        return self.key.table


async def key_at(connection: AsyncConnection, trail: Trail, owner: int, moment: datetime) -> int | None:
    """The key at which the rows of this moment or later begin, as far as they are in order; None without any row.

    It halves the span of keys until one is left, so that a million rows take twenty looks at an index.
    """
    found: int | None = await connection.scalar(_halving(trail), {"owner": owner, "moment": moment})
    return found


def _halving(trail: Trail) -> sa.TextClause:
    table, key, at = trail.key.table.name, trail.key.name, trail.at.name
    mine = f"FROM {table} WHERE {trail.owner.name} = :owner"
    return sa.text(f"""
        WITH RECURSIVE span (low, high) AS (
            SELECT (SELECT {key} {mine} ORDER BY {key} LIMIT 1), (SELECT {key} {mine} ORDER BY {key} DESC LIMIT 1) + 1
            UNION ALL
            SELECT CASE WHEN middle.at < :moment THEN middle.key + 1 ELSE low END,
                CASE WHEN middle.at < :moment THEN high ELSE low + (high - low) / 2 END
            FROM span CROSS JOIN LATERAL (
                SELECT {key} AS key, {at} AS at {mine} AND {key} >= low + (high - low) / 2 ORDER BY {key} LIMIT 1
            ) AS middle
            WHERE low < high
        )
        SELECT high FROM span WHERE low >= high
    """).bindparams(sa.bindparam("moment", type_=TIME), sa.bindparam("owner", type_=sa.BigInteger))  # noqa: S608 - ours
