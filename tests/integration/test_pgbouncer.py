"""The stores behind a pgbouncer in transaction mode: a session of Postgres is theirs for one transaction only."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta

import psycopg
import pytest

from fleetagent.adapters.postgres.audit import PostgresAudit
from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.migrate import migrate
from fleetagent.adapters.postgres.reading import PostgresReading
from fleetagent.adapters.postgres.revisions import head
from fleetagent.dev.pgbouncer import PgBouncer
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.domain.records import AgentKey, Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import TryLater
from support.conversation_contract import ConversationContract, Side, said
from support.hands import RealHands
from support.on_postgres import on_postgres
from support.past import grow_old, prune
from support.servers import Model, a_model
from support.stores import HELD, KEY, NOON, Process, a_process

ITS_OWN = {"application_name", "client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings"}
"""What pgbouncer itself sets for each of its clients."""


@pytest.fixture(scope="module")
def pgbouncer(postgres_server: EmbeddedPostgres) -> Iterator[PgBouncer]:
    """Two sessions of Postgres for whatever comes."""
    with PgBouncer.start(postgres_server.url, pool_size=2) as running:
        yield running


@pytest.fixture
def url(pgbouncer: PgBouncer, database_url: str) -> str:
    """This test's database by way of pgbouncer."""
    return pgbouncer.url_of(database_url.rpartition("/")[2])


@pytest.fixture
async def one(url: str) -> AsyncIterator[Process]:
    async with a_process(url, lease=timedelta(seconds=60)) as process:
        yield process


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    with a_model() as model:
        yield model


class TestConversation(ConversationContract):
    @pytest.fixture
    async def side(self, one: Process, url: str) -> AsyncIterator[Side]:
        async with a_process(url, "two") as other:
            await one.agent()
            yield Side(one.conversation, RealHands(one, other))


async def test_a_whole_run_goes_through(one: Process, server: Model) -> None:
    async with on_postgres(one, server) as on:
        await on.say("be frugal")

        ended = await on.run()

        assert (ended.outcome, ended.error) == (Outcome.HELD, None)
        assert (await on.last())["model_calls"] >= 1
        assert (await on.run()).run.run_id == ended.run.run_id + 1


async def test_one_process_has_the_lease_and_the_other_waits(one: Process, url: str) -> None:
    lease = await one.lease()

    async with a_process(url, "two") as other:
        assert await other.agents.take_lease(lease.agent_id) is None
        await one.agents.release(lease)
        assert await other.agents.take_lease(lease.agent_id) is not None


async def test_twenty_agents_of_two_processes_share_two_sessions(url: str) -> None:
    async def runs_of(process: Process, key: AgentKey) -> list[str]:
        agent = await process.agents.meet(key, f"uid-{key.name}", floor=0, handled={})
        lease = await process.agents.take_lease(agent.id)
        assert lease is not None
        for n in range(3):
            await process.runs.persist(agent.id, Trigger.SCHEDULE, f"{n}")
            run = await process.runs.claim(lease, NOON)
            await process.conversation.append(run, [said(run, f"{key.name} {n}")])
            await process.conclude(run)
        session = (await process.agents.meet(key, f"uid-{key.name}", floor=0, handled={})).session
        return [m.content for m in await process.conversation.in_prompt(session.id)]

    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(a_process(url, name)) for name in ("one", "two")]
        keys = [AgentKey("prod", f"porep-{n}") for n in range(20)]
        found = await asyncio.gather(*(runs_of(processes[n % 2], key) for n, key in enumerate(keys)))

    assert found == [[f"{key.name} {n}" for n in range(3)] for key in keys]


async def test_old_rows_are_pruned(one: Process) -> None:
    for _ in range(2):
        run = await one.start()
        await one.say(run, "facts")
        await one.conclude(run, quiet=True)
    await grow_old(one)

    await prune(one, await one.lease())

    assert [r["run_id"] for r in await one.rows("SELECT run_id FROM runs")] == [2]
    assert (await PostgresAudit(one.database).sizes())["runs"].bytes > 0


async def test_nothing_of_us_stays_in_a_session_of_postgres(
    postgres_server: EmbeddedPostgres, database_url: str
) -> None:
    name = database_url.rpartition("/")[2]
    with PgBouncer.start(postgres_server.url, pool_size=1) as alone:
        async with a_process(alone.url_of(name)) as process:
            for _ in range(10):  # a driver that prepares statements does so after a few times
                run = await process.start()
                await process.say(run, "facts")
                await process.runs.conclude(run, HELD)
        with psycopg.connect(alone.url_of(name), autocommit=True, prepare_threshold=None) as same_session:
            left = {
                kind: {row[0] for row in same_session.execute(query).fetchall()}
                for kind, query in {
                    "prepared": "SELECT statement FROM pg_prepared_statements",
                    "set": "SELECT name FROM pg_settings WHERE source = 'session'",
                    "locks": "SELECT objid FROM pg_locks WHERE locktype = 'advisory'",
                    "listens": "SELECT pg_listening_channels()",
                    "cursors": "SELECT name FROM pg_cursors WHERE is_holdable",
                }.items()
            }

    assert left.pop("set") <= ITS_OWN
    assert left == {"prepared": set(), "locks": set(), "listens": set(), "cursors": set()}


async def test_replicas_migrate_one_after_the_other(postgres_server: EmbeddedPostgres, pgbouncer: PgBouncer) -> None:
    name = f"test_{secrets.token_hex(5)}"
    postgres_server.create_database(name)
    engines = [open_engine(pgbouncer.url_of(name), pool_size=1) for _ in range(3)]
    try:
        assert await asyncio.gather(*map(migrate, engines)) == [head()] * 3
    finally:
        for engine in engines:
            await engine.dispose()
        postgres_server.drop_database(name)


async def test_a_read_that_takes_too_long_ends_on_the_server_too(one: Process, url: str) -> None:
    await one.agent()
    engine = open_engine(url, 2)
    reading = PostgresReading(Database(engine, longest_seconds=0.5), cluster="test")
    async with one.database.transaction() as connection:
        await connection.exec_driver_sql("LOCK TABLE agents IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TryLater):
            await reading.agent(KEY)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'agents'::regclass"
        assert (await connection.exec_driver_sql(waiting)).scalar_one() == 0
    assert await PostgresReading(Database(engine), cluster="test").agent(KEY) is not None
    await engine.dispose()
