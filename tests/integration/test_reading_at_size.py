"""What is read of a past of 100,000 runs costs what it costs of a short one: counted in the blocks that are read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.reading import PostgresReading
from fleetagent.adapters.postgres.reading.walk import LOOKED_AT, PORTIONS
from fleetagent.adapters.postgres.tables import runs
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.domain.facts import Refusal
from fleetagent.domain.records import AgentKey, Asked, Outcome
from fleetagent.domain.views import RunRow
from fleetagent.ports.reading import Slice
from support.conversation_contract import said
from support.ledger import launched
from support.past import LONG_AGO, a_long_past
from support.plans import blocks_read, statements_of, tables_read_whole
from support.stores import KEY, NOON, Process, a_process

RUNS = 100_000
BEGAN = NOON - LONG_AGO
MINUTE = timedelta(minutes=1)
SMALL = {"alembic_version", "agents", "sessions", "hosts", "spend"}
"""One row in all, or a few for each agent: to read them all is no sign of a missing index."""
OTHER = AgentKey("prod", "other")

FEW_BLOCKS, LOOKED_THROUGH = 700, 2_500
"""For one page; for a page that a filter leaves little of."""


@pytest.fixture(scope="module")
def long_past(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    """A database with two agents that have a long past each, and a short present on top."""
    url = postgres_server.create_database("reading_at_size", template=migrated_template)
    asyncio.run(_fill(url))
    yield url
    postgres_server.drop_database("reading_at_size")


async def _fill(url: str) -> None:
    async with a_process(url) as one:
        for key, count in ((OTHER, 10_000), (KEY, RUNS)):
            agent = await one.agents.meet(key, "uid-1", floor=0, handled={})
            await a_long_past(one, agent.id, count, apart=MINUTE)
        run = await one.start()
        await one.conversation.append(run, [said(run, f"{n}") for n in range(150)])
        await launched(one, run)
        await one.ledger.refuse(run, Asked("stop", "no", "model", {}), Refusal("TooYoung", "no"))
        await one.runs.ask_wake(run, NOON, "look", limit=5)
        await one.runs.raise_alert(run.agent_id, run.run_id, "Model", "warning", "look at this")
        await one.conclude(run, outcome=Outcome.ACTED)
        async with one.database.transaction() as connection:
            failed = sa.update(runs).where(runs.c.agent_id == run.agent_id, runs.c.run_id % LOOKED_AT < 4)
            await connection.execute(failed.where(runs.c.run_id <= RUNS).values(outcome="Failed"))


@pytest.fixture
async def process(long_past: str) -> AsyncIterator[Process]:
    async with a_process(long_past) as one:
        yield one


Read = Callable[[PostgresReading], Awaitable[Any]]

MIDDLE = Slice(since=BEGAN + 50_000 * MINUTE, until=BEGAN + 50_100 * MINUTE)

READS: dict[str, Read] = {
    "namespaces": lambda r: r.namespaces(),
    "agents": lambda r: r.agents(("prod",)),
    "agent": lambda r: r.agent(KEY),
    "versions": lambda r: r.versions((KEY, OTHER)),
    "runs": lambda r: r.runs(KEY),
    "runs of a time": lambda r: r.runs(KEY, MIDDLE),
    "run": lambda r: r.run(KEY, RUNS // 2),
    "sessions": lambda r: r.sessions(KEY),
    "session": lambda r: r.session(KEY),
    "conversation": lambda r: r.conversation(KEY),
    "conversation in the prompt": lambda r: r.conversation(KEY, in_prompt=True),
    "conversation of a time": lambda r: r.conversation(KEY, None, MIDDLE),
    "compactions": lambda r: r.compactions(KEY),
    "actions": lambda r: r.actions(KEY),
    "actions of a run": lambda r: r.actions(KEY, run_id=RUNS // 2),
    "actions that wait": lambda r: r.actions(KEY, states=("waiting",)),
    "wakes": lambda r: r.wakes(KEY),
    "wakes to come": lambda r: r.wakes(KEY, state="pending"),
    "alerts": lambda r: r.alerts(KEY),
    "alerts that are open": lambda r: r.alerts(KEY, state="open"),
    "machines that live": lambda r: r.machines(KEY),
    "machines": lambda r: r.machines(KEY, ended=True),
    "hosts": lambda r: r.hosts(KEY),
    "spend": lambda r: r.spend(KEY),
}
FILTERED: dict[str, Read] = {
    "runs with an outcome that no run has": lambda r: r.runs(KEY, outcome="Unclear"),
    "runs with a trigger that no run has": lambda r: r.runs(KEY, trigger="Request"),
    "actions in a state that none is in": lambda r: r.actions(KEY, states=("unknown",)),
    "actions of a time": lambda r: r.actions(KEY, MIDDLE),
    "wakes in a state that none is in": lambda r: r.wakes(KEY, state="dropped"),
    "samples": lambda r: r.samples(KEY, BEGAN, BEGAN + timedelta(seconds=RUNS), most=500),
}


async def costs(process: Process, read: Read) -> tuple[int, set[str]]:
    """The blocks that the reading takes, and the tables that it reads from end to end."""
    with statements_of(process) as sent:
        await read(PostgresReading(process.database, cluster="test"))
    blocks, whole = 0, set[str]()
    async with process.database.transaction() as connection:
        for statement, parameters in sent:
            explained = await connection.exec_driver_sql(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters
            )
            plan = explained.scalar_one()[0]["Plan"]
            blocks += blocks_read(plan)
            whole |= set(tables_read_whole(plan))
    return blocks, whole - SMALL


@pytest.mark.parametrize("name", READS)
async def test_a_page_takes_few_blocks(process: Process, name: str) -> None:
    blocks, whole = await costs(process, READS[name])

    assert whole == set()
    assert blocks < FEW_BLOCKS


@pytest.mark.parametrize("name", FILTERED)
async def test_a_page_that_a_filter_leaves_little_of_is_looked_for_no_further_than_so(
    process: Process, name: str
) -> None:
    blocks, _ = await costs(process, FILTERED[name])

    assert blocks < LOOKED_THROUGH


async def test_what_a_filter_leaves_is_found_page_by_page_to_the_end(process: Process) -> None:
    """Those that failed stand where one portion that is looked through ends and the next one begins."""
    reading = PostgresReading(process.database, cluster="test")
    pages, found, which = 0, list[RunRow](), Slice()
    while True:
        page = await reading.runs(KEY, which, outcome="Failed")
        pages, found = pages + 1, [*found, *page.items]
        if page.next is None:
            break
        which = Slice(after=page.next)

    assert [r.run_id for r in found] == [n for n in range(RUNS, 0, -1) if n % LOOKED_AT < 4]
    assert pages == RUNS // (LOOKED_AT * PORTIONS) + 1


async def test_a_time_in_the_middle_is_found_exactly(process: Process) -> None:
    reading = PostgresReading(process.database, cluster="test")
    which = Slice(limit=200, since=MIDDLE.since, until=MIDDLE.until)

    assert [r.run_id for r in (await reading.runs(KEY, which)).items] == list(range(50_099, 49_999, -1))
    messages = (await reading.conversation(KEY, None, Slice(limit=200, since=MIDDLE.since, until=MIDDLE.until))).items
    assert [m.run_id for m in messages[:4]] == [50_099] * 4
    actions = (await reading.actions(KEY, which)).items
    assert sorted({a.run_id for a in actions}) == list(range(50_000, 50_100, 10))
