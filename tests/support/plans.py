"""How the database would carry out what a test has sent to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from support.stores import Process


@contextmanager
def statements_of(process: Process) -> Iterator[list[tuple[str, Any]]]:
    """Each statement with its parameters, as it goes to the database."""
    sent: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:  # noqa: FBT001
        sent.extend((statement, each) for each in (parameters if many else [parameters]))

    engine = process.database._engine.sync_engine
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def tables_read_whole(plan: dict[str, Any]) -> Iterator[str]:
    """The tables that this node of a plan, or one below it, reads from end to end."""
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for below in plan.get("Plans", ()):
        yield from tables_read_whole(below)


def blocks_read(plan: dict[str, Any]) -> int:
    """Of 8 kB each, whether they were in the memory or not."""
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
