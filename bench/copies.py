"""Makes a long history of a short one: copies of stored runs, row by row, under later numbers."""

from typing import Any, Final

import sqlalchemy as sa

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.tables import agents, messages, metadata, sessions

RUNS_COPIED: Final = 100
"""Those before the newest so many: none of them is in the prompt any more."""

BLOCKS_IN_ONE_GO: Final = 100

_RUN_NUMBERS: Final = {"run_id", "claimed_by_run", "asked_by_run", "masked_before_run"}


async def copy_runs(database: Database, first: int, last: int) -> int:
    """Fill the run numbers from `first` on with whole blocks of copies; the last number filled, at most `last`."""
    blocks = (last - first + 1) // RUNS_COPIED
    for begin in range(0, blocks, BLOCKS_IN_ONE_GO):
        await _copy_blocks(database, first + begin * RUNS_COPIED, min(BLOCKS_IN_ONE_GO, blocks - begin))
    return first + blocks * RUNS_COPIED - 1


async def _copy_blocks(database: Database, first: int, blocks: int) -> None:
    source = range(first - 2 * RUNS_COPIED, first - RUNS_COPIED)
    async with database.transaction() as connection:
        spans = sa.select(sa.func.min(messages.c.seq), sa.func.max(messages.c.seq))
        lowest, highest = (
            await connection.execute(spans.where(messages.c.run_id.between(source[0], source[-1])))
        ).one()
        newest = await connection.scalar(sa.select(sa.func.max(messages.c.seq))) or 0
        in_a_block = highest - lowest + 1
        steps = {"run": (RUNS_COPIED, first - source[0]), "seq": (in_a_block, newest + 1 - lowest)}
        for table in metadata.sorted_tables:
            number = next((table.c[name] for name in ("run_id", "claimed_by_run") if name in table.c), None)
            if number is not None:
                await connection.execute(_copies(table, number, source, blocks, steps))
        await connection.execute(sa.update(agents).values(last_run_id=first + blocks * RUNS_COPIED - 1))
        await connection.execute(sa.update(sessions).values(last_seq=newest + blocks * in_a_block))


def _copies(
    table: sa.Table, number: sa.Column[Any], source: range, blocks: int, steps: dict[str, tuple[int, int]]
) -> sa.Insert:
    """Block after block, as runs would have come one after the other."""
    block = sa.func.generate_series(0, blocks - 1).table_valued("n", name="block").render_derived()
    kept = [column for column in table.c if column.identity is None]
    values = [_shifted(column, block.c.n, steps) for column in kept]
    order = [block.c.n, number, *(table.c[name] for name in ("seq",) if name in table.c)]
    rows = (
        sa.select(*values)
        .select_from(table.join(block, sa.true()))
        .where(number.between(source[0], source[-1]))
        .order_by(*order)
    )
    return sa.insert(table).from_select(kept, rows)


def _shifted(
    column: sa.Column[Any], block: sa.ColumnElement[int], steps: dict[str, tuple[int, int]]
) -> sa.ColumnElement[Any]:
    if column.name in _RUN_NUMBERS or column.name == "seq":
        step, ahead = steps["seq" if column.name == "seq" else "run"]
        return column + ahead + block * step
    return column
