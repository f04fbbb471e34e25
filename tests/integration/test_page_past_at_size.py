"""A page of the past costs the same over ten times the past: in statements, in blocks they read, in its own size."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from fleetagent.dev.postgres import EmbeddedPostgres
from support.lived_past import PATH, a_life, pages_of
from support.past import a_long_past
from support.plans import blocks_read, statements_of, tables_read_whole
from support.stores import a_process

SHORT, LONG = 2_500, 25_000
"""Runs, each with four messages that have left the prompt."""
SMALL = {"alembic_version", "agents", "sessions", "hosts", "spend"}
"""One row in all, or a few for each agent: to read them all is no sign of a missing index."""
PAGES = [
    "runs",
    "runs?outcome=Held",
    "conversation",
    "conversation?view=everything",
    "conversation?view=tokens&seen=1",
    "fleet",
    "fleet?ended=1",
    "spend",
    "sessions",
    "wakes?past=1",
]


@dataclass(frozen=True)
class Cost:
    """Of one page."""

    statements: int
    blocks: int
    size: int
    whole: frozenset[str]


@pytest.fixture(scope="module")
def costs(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[dict[int, dict[str, Cost]]]:
    """Of each page, by the length of the past below what lives now."""
    names = {runs: f"pages_of_{runs}" for runs in (SHORT, LONG)}
    urls = {n: postgres_server.create_database(name, template=migrated_template) for n, name in names.items()}
    yield {runs: asyncio.run(_costs(url, runs)) for runs, url in urls.items()}
    for name in names.values():
        postgres_server.drop_database(name)


async def _costs(url: str, runs: int) -> dict[str, Cost]:
    async with a_process(url) as process:
        await a_long_past(process, (await process.agent()).id, runs)
        await a_life(process)
        newest = (await process.agent()).last_run_id
        async with pages_of(process) as pages:
            cost: dict[str, Cost] = {}
            for page in [*PAGES, f"runs/{newest}", f"runs/{newest - 1}"]:
                with statements_of(process) as sent:
                    answer = await pages.browser.get(f"{PATH}/{page}")
                assert answer.status_code == 200
                blocks, whole = 0, set[str]()
                async with process.database.transaction() as connection:
                    for statement, given in sent:
                        how = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
                        plan = (await connection.exec_driver_sql(how, given)).scalar_one()[0]["Plan"]
                        blocks += blocks_read(plan)
                        whole |= set(tables_read_whole(plan))
                name = page.replace(str(newest), "newest").replace(str(newest - 1), "the one before")
                cost[name] = Cost(len(sent), blocks, len(answer.content), frozenset(whole - SMALL))
            return cost


@pytest.mark.parametrize("page", [*PAGES, "runs/newest", "runs/the one before"])
def test_a_page_costs_no_more_over_a_long_past(costs: dict[int, dict[str, Cost]], page: str) -> None:
    short, long = costs[SHORT][page], costs[LONG][page]

    assert long.statements <= short.statements + 4  # a filter that little passes looks through four portions at most
    assert long.blocks <= 1.5 * short.blocks + 100
    assert long.size <= 1.2 * short.size
    assert not long.whole
