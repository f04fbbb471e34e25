"""The engine on a real llama.cpp server: how far our estimates are from its counts, and whether it ever refuses."""

import asyncio
from datetime import timedelta
from statistics import median

from bench.page import Table, met
from bench.world import ROOT, say

from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.dev.llama import LlamaServer, find_llama
from fleetagent.dev.postgres import EmbeddedPostgres
from support.real_model import MOST_OUTPUT_TOKENS, WINDOW_TOKENS, Report, Watch, many_runs, on_llama
from support.servers import Market, a_market
from support.stores import a_process

GOAL_ERROR = 0.02
RUNS = 200

WORDS = f"""\
{{runs}} runs in one session: the real engine, Postgres, a simulated market, and a llama.cpp server with SmolLM2-135M \
whose context is the budget, {WINDOW_TOKENS:,} tokens, with answers of {MOST_OUTPUT_TOKENS} at most. The model talks \
nonsense, half of the time in the form of calls. The template of the prompt writes tools and calls out, and refuses \
what the strictest templates refuse. The error is that of what we projected before a request, against the server's \
count; after each reply our figure is the server's."""


def measure(runs: int = RUNS) -> Table:
    """The runs of `make test-model`, as a table."""
    packages = find_llama(progress=say)
    template = (ROOT / "tests" / "model" / "chat_template.jinja").read_text()
    say(f"real model: {runs} runs, some 10 minutes")
    with (
        EmbeddedPostgres.start() as postgres,
        a_market() as market,
        LlamaServer.start(packages, context_tokens=WINDOW_TOKENS, chat_template=template) as server,
    ):
        url = postgres.create_database("real_model")
        migrate_to_head(url)
        return _table(asyncio.run(_report(url, server, market, runs)), runs)


async def _report(url: str, server: LlamaServer, market: Market, runs: int) -> Report:
    watch = Watch()
    async with a_process(url, lease=timedelta(hours=12)) as process, on_llama(process, server, market, watch) as on:
        return await many_runs(on, watch, runs)


def _table(report: Report, runs: int) -> Table:
    largest = max(e.prompt_tokens for e in report.wire)
    middle, most, worst = _errors(report.errors(anchored=True))
    guess, _, worst_guess = _errors(report.errors(anchored=False))
    refused = len(report.refused)
    return Table(
        columns=["", "measured", "goal", "met"],
        rows=[
            ["requests", f"{len(report.wire)}", "", ""],
            ["refused", f"{refused}", "0", met(refused == 0)],
            ["largest prompt", f"{largest} of {WINDOW_TOKENS} tokens", "", ""],
            ["compactions", ", ".join(f"{n} {name}" for name, n in report.compactions.most_common()), "", ""],
            [
                "estimate of the next prompt, median error",
                f"{middle:.1%}",
                f"≤ {GOAL_ERROR:.0%}",
                met(middle <= GOAL_ERROR),
            ],
            ["the same, of 95 in 100", f"{most:.1%}", f"≤ {GOAL_ERROR:.0%}", met(most <= GOAL_ERROR)],
            ["the same, the worst", f"{worst:.1%}", f"≤ {GOAL_ERROR:.0%}", met(worst <= GOAL_ERROR)],
            ["before a count, or after a compaction: median error", f"{guess:.1%}", "", ""],
            ["the same, the worst", f"{worst_guess:.1%}", "", ""],
            ["a run", f"{report.seconds / runs:.1f} s", "", ""],
        ],
        words=WORDS.format(runs=runs),
    )


def _errors(errors: list[float]) -> tuple[float, float, float]:
    """The median of these, which are in order, what 95 in 100 do not pass, and the worst."""
    return (median(errors), errors[len(errors) * 95 // 100], errors[-1]) if errors else (0.0, 0.0, 0.0)
