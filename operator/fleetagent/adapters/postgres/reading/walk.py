"""A page of a long table, newest first, at a cost that does not grow with the table.

A page ends after `limit` rows, or after so many rows were looked at: what a filter seldom lets pass would else be
searched for in the whole past. Then the next page goes on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.reading.cursors import cursor, key_in
from fleetagent.adapters.postgres.reading.seek import Trail, key_at
from fleetagent.domain.records import HIGHEST_ID
from fleetagent.ports.reading import Slice

LOOKED_AT = 5_000
PORTIONS = 4


@dataclass(frozen=True, slots=True)
class Walk:
    """What to read of a trail, its key among it.

    `indexed` conditions are those that an index finds; `wanted` ones are asked of each row that is looked at.
    """

    trail: Trail
    columns: Sequence[sa.ColumnElement[Any]]
    indexed: Sequence[sa.ColumnElement[bool]] = ()
    wanted: Sequence[sa.ColumnElement[bool]] = ()


Rows = Sequence[sa.RowMapping]


async def page_of(connection: AsyncConnection, walk: Walk, owner: int, which: Slice) -> tuple[Rows, str | None]:
    """The newest rows of the owner behind `which.after`, and the cursor behind them; None at the end."""
    trail, limit = walk.trail, max(1, which.limit)
    after = key_in(trail.name, which.after)
    lowest, below, in_time = await _span(connection, trail, owner, which)
    below = below if after is None else min(below, after)
    wanted = (*walk.wanted, *in_time)
    found: list[sa.RowMapping] = []
    for _ in range(PORTIONS if wanted else 1):
        begins = await _begin_of_portion(connection, walk, owner, lowest, below) if wanted else None
        rows = (trail.owner == owner, trail.key < below, trail.key >= (lowest if begins is None else begins))
        query = sa.select(*walk.columns).where(*rows, *walk.indexed, *wanted)
        query = query.order_by(trail.key.desc()).limit(limit + 1 - len(found))
        found += (await connection.execute(query)).mappings()
        if len(found) > limit:
            return found[:limit], cursor(trail.name, [found[limit - 1][trail.key.name]])
        if begins is None:
            return found, None
        below = begins
    return found, cursor(trail.name, [below])


async def _span(
    connection: AsyncConnection, trail: Trail, owner: int, which: Slice
) -> tuple[int, int, tuple[sa.ColumnElement[bool], ...]]:
    """The keys between which the rows of that time stand, and what still has to be asked of each of them."""
    lowest, below = 0, HIGHEST_ID
    in_time: tuple[sa.ColumnElement[bool], ...] = ()
    if which.until is not None:
        in_time = (trail.at < which.until,)
        border = await key_at(connection, trail, owner, which.until + trail.disorder)
        below = below if border is None else border
    if which.since is not None:
        in_time = (*in_time, trail.at >= which.since)
        lowest = await key_at(connection, trail, owner, which.since - trail.disorder) or 0
    return lowest, below, in_time


async def _begin_of_portion(connection: AsyncConnection, walk: Walk, owner: int, lowest: int, below: int) -> int | None:
    """The lowest key of those that are looked at; None when these are all that is left."""
    trail = walk.trail
    rows = (trail.owner == owner, trail.key < below, trail.key >= lowest, *walk.indexed)
    looked_at = sa.select(trail.key.label("key")).where(*rows).order_by(trail.key.desc()).limit(LOOKED_AT).subquery()
    count, begins = (await connection.execute(sa.select(sa.func.count(), sa.func.min(looked_at.c.key)))).one()
    return begins if count == LOOKED_AT else None
