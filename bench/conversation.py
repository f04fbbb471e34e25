"""A conversation of months: its cost in tokens, whether it stays flat, and what of it a prefix cache can keep."""

import asyncio
import os
import statistics
from collections import Counter
from collections.abc import Sequence

from bench import original
from bench.client_cpu import ms_per_request
from bench.long_session import LongSession, a_long_session
from bench.machine import footprint
from bench.page import Table, met
from bench.world import say

from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.domain.records import Outcome
from support.counting_model import Figures, tokens_of_fixed_part
from support.life import BUDGET_TOKENS, REPLY_TOKENS, Life
from support.months import BEATS_A_DAY, BUSY, USUAL

DAYS = 35
RUNS = DAYS * BEATS_A_DAY
A_THOUSAND = 1_000
GOAL_TIMES_FEWER = 20
GOAL_SHARE = 0.95
GOAL_CPU_MS = 10.0
FLAT = 1.25
"""So much more counts as the same: the days differ, and so does what else the machine does."""

Row = Sequence[str]


def measure() -> Table:
    """Usual days in memory for the tokens, busy ones on a real Postgres for all else."""
    say(f"conversation: {DAYS} usual days, without a database")
    rows = [*_tokens()]
    say(f"conversation: {RUNS} runs of busy days in one session, on Postgres")
    with EmbeddedPostgres.start() as postgres:
        database_url = postgres.create_database("conversation")
        migrate_to_head(database_url)
        rows += asyncio.run(_on_postgres(database_url))
    return Table(columns=["figure", "measured", "goal", "met"], rows=rows, words=WORDS)


def _tokens() -> list[Row]:
    at_once, looks = Life(USUAL), Life(USUAL, ends_at_once=False)
    for life in (at_once, looks):
        asyncio.run(life.pass_by(RUNS))
    request = at_once.model.last
    if request is None:
        raise RuntimeError("the model was never asked")
    before = original.cost(DAYS, tokens_of_fixed_part(request)).tokens / DAYS
    ours, curious = (life.model.tokens / DAYS for life in (at_once, looks))
    asked = sum(bool(life_run) for life_run in _requests_by_run(at_once)) / DAYS
    return [
        ["original design, tokens a day", f"{before:,.0f}", "", ""],
        ["ours, usual days", f"{ours:,.0f} ({asked:.0f} of {BEATS_A_DAY} runs ask the model)", "", ""],
        ["times fewer", f"{before / ours:.0f}", f"≥ {GOAL_TIMES_FEWER}", met(before / ours >= GOAL_TIMES_FEWER)],
        [
            "the same, a model that looks twice in each run",
            f"{curious:,.0f}, {before / curious:.0f} times fewer",
            "",
            "",
        ],
        _share_row("prefix share, usual days", at_once.model.asked),
    ]


def _requests_by_run(life: Life) -> list[int]:
    return [len(life.requests(run, run)) for run in range(1, RUNS + 1)]


async def _on_postgres(database_url: str) -> list[Row]:
    async with a_long_session(database_url, BUSY) as session:
        rss_mib: dict[int, float] = {}
        marks: dict[int, int] = {}
        async for run in session.pass_by(RUNS):
            if run in {A_THOUSAND, RUNS - A_THOUSAND, RUNS}:
                rss_mib[run], marks[run] = footprint(os.getpid()).rss_mib, len(session.model.asked)
        compactions = await session.process.rows("SELECT method, count(*) AS n FROM compactions GROUP BY method")
        made = ", ".join(f"{row['n']} {row['method']}" for row in sorted(compactions, key=lambda r: r["method"]))
        asked = session.model.asked
        first, last = asked[: marks[A_THOUSAND]], asked[marks[RUNS - A_THOUSAND] :]
        outcomes = Counter(t.outcome for t in session.took)
        refused = len(session.model.refused)
        largest = max(f.prompt_tokens for f in asked)
        fits = largest <= BUDGET_TOKENS - REPLY_TOKENS
        return [
            ["busy days: runs, skipped", f"{RUNS:,}, {outcomes[Outcome.SKIPPED] / RUNS:.0%}", "", ""],
            ["busy days: tokens a day", f"{session.model.tokens / DAYS:,.0f}", "", ""],
            ["refused requests", str(refused), "0", met(refused == 0)],
            ["largest prompt, server's tokens", f"{largest:,}", f"≤ {BUDGET_TOKENS - REPLY_TOKENS:,}", met(fits)],
            ["compactions", made, "", ""],
            _flat("messages in the largest prompt", first, last, "messages"),
            _flat("characters of the largest prompt", first, last, "chars"),
            _share_row("prefix share, busy days", asked),
            _time_row("ms of a skipped run", session, asked_model=False),
            _time_row("ms of a run that asks", session, asked_model=True),
            _memory_row(rss_mib[A_THOUSAND], rss_mib[RUNS]),
            await _cpu_row(session),
        ]


def _flat(what: str, first: Sequence[Figures], last: Sequence[Figures], figure: str) -> Row:
    before, now = (max(getattr(f, figure) for f in side) for side in (first, last))
    return [f"{what}, first and last 1,000 runs", f"{before:,} → {now:,}", "flat", met(now <= before * FLAT)]


def _share_row(what: str, asked: Sequence[Figures]) -> Row:
    share = statistics.fmean(f.share for f in asked)
    return [what, f"{share:.1%}", f"≥ {GOAL_SHARE:.0%}", met(share >= GOAL_SHARE)]


def _time_row(what: str, session: LongSession, *, asked_model: bool) -> Row:
    """The median: what else the machine did now and then is not ours."""
    first, last = (
        1000 * statistics.median(t.seconds for t in side if bool(t.requests) is asked_model)
        for side in (session.took[:A_THOUSAND], session.took[-A_THOUSAND:])
    )
    name = f"{what}, first and last 1,000 runs (median)"
    return [name, f"{first:.1f} → {last:.1f}", "flat", met(last <= first * FLAT)]


def _memory_row(before_mib: float, now_mib: float) -> Row:
    """The fake server and this measurement, which keep a record of each request, are in it."""
    figures = f"{before_mib:.0f} → {now_mib:.0f} MiB"
    return ["memory of the process after 1,000 and all runs", figures, "flat", met(now_mib <= before_mib * FLAT)]


async def _cpu_row(session: LongSession) -> Row:
    """What the engine, the stores and the client take of this process for each request, the fake server aside.

    A run costs something even if the model is not asked; that is told apart.
    """
    asking, skipped = ([t for t in session.took if bool(t.requests) is asked] for asked in (True, False))
    run_ms, rest_ms = (1000 * statistics.fmean(t.cpu_seconds for t in side) for side in (asking, skipped))
    engine_ms = (run_ms - rest_ms) / statistics.fmean(t.requests for t in asking)
    if session.model.last is None:
        raise RuntimeError("the model was never asked")
    client_ms = await ms_per_request(session.model.last)
    total = engine_ms + client_ms
    parts = f"{engine_ms:.1f} engine and stores, {client_ms:.1f} client; a run by itself takes {rest_ms:.1f}"
    return ["our CPU per model turn, ms", f"{total:.1f} ({parts})", f"≤ {GOAL_CPU_MS:.0f}", met(total <= GOAL_CPU_MS)]


WORDS = (
    f"{DAYS} simulated days of one session, a run every five minutes, {BUDGET_TOKENS:,} tokens. The model server is "
    "strict, counts with a tokenizer of its own (about 1.2 times our estimate) and has a window of exactly the budget. "
    "Usual days: less than one machine lost a day, a few alerts, checks and messages a week; busy days: eleven "
    "machines lost a day, refusals, alerts, checks, outages, and one summary in three is bad. The model does as its "
    "prompt says: on target it ends at once. The original design is computed, with every guess in its favour (see "
    "bench/original.py): a call every five minutes, two requests each, 250 tokens kept of each cycle, one summary at "
    "30,000; the same fixed prompt, the same tokenizer. Prefix share: how many characters of the request before the "
    "next one begins with. CPU: of our process, per request, beyond what a run takes that does not ask (claim, look, "
    "conclude)."
)
