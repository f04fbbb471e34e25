"""What is the same for every side: the run that is stored, how it is measured, how the database is kept."""

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import psycopg

OBSERVATION: Final = (
    "[Run #{n} - 2026-03-17 12:43 UTC] Demand: active=True, queued=14. Fleet: 9 proving (410 p/h), 2 loading (75 p/h), "
    "projected 485/500 p/h, 3.42 of 4.00 USD/h. Since the last run: instance 33014980 online; no alerts."
)
TOOL: Final = "get_fleet"
RESULT: Final = "x" * 200
VERDICT: Final = (
    "Projected 485 of 500 counts the two loading instances. Hold - do not launch. "
    '{"action": false, "state_changed": false}'
)
MESSAGES: Final = 4
"""So many of them a run adds."""

WARM_UP_RUNS = 10
"""What a table takes before it holds much (maps of free and of visible pages) is no cost of a run."""

LOADS = 20
VACUUM_AFTER_RUNS, VACUUM_AFTER_SHARE = 12, 0.2
"""By default autovacuum comes after 50 rows, four of which a run has, and a fifth of the table have changed."""


class Side(Protocol):
    """One way to keep a conversation in Postgres."""

    async def run(self, n: int) -> None:
        """Load what a run needs and store it."""

    async def load(self) -> None:
        """Load the conversation as a prompt needs it."""

    async def fill(self, first: int, last: int) -> None:
        """Have these runs as if they had been stored one by one, by a faster way."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one side needs at one length of its history."""

    at_run: int
    bytes_per_run: float
    load_ms: float
    run_ms: float | None
    """None where the runs were filled in."""


async def measured(side: Side, url: str, marks: Sequence[int], filled_after: int) -> AsyncIterator[Figures]:
    """At each mark; the runs after `filled_after` are filled in."""
    for n in range(1, WARM_UP_RUNS + 1):
        await side.run(n)
    done, before = WARM_UP_RUNS, size(url)
    vacuum_at = _next_vacuum(done)
    for mark in marks:
        seconds = []
        for n in range(done + 1, min(mark, filled_after) + 1):
            seconds.append(await _seconds(side.run(n)))
            if n >= vacuum_at:
                vacuum(url)
                vacuum_at = _next_vacuum(n)
        if mark > filled_after:
            await side.fill(max(done, filled_after) + 1, mark)
        done = mark
        bytes_per_run = (size(url) - before) / (mark - WARM_UP_RUNS)
        loads = [await _seconds(side.load()) for _ in range(LOADS)]
        run_ms = statistics.median(seconds[-LOADS:]) * 1000 if seconds else None
        yield Figures(mark, bytes_per_run, statistics.median(loads) * 1000, run_ms)


def _next_vacuum(run: int) -> float:
    return run * (1 + VACUUM_AFTER_SHARE) + VACUUM_AFTER_RUNS


async def _seconds(doing: Awaitable[Any]) -> float:
    began = time.perf_counter()
    await doing
    return time.perf_counter() - began


def vacuum(url: str) -> None:
    """What autovacuum does within a minute, at moments that are the same for all sides."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")


def size(url: str) -> int:
    """Bytes of the whole database: tables, indexes, what updates left behind."""
    vacuum(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    if row is None:
        raise RuntimeError("the database does not tell its size")
    return int(row[0])
