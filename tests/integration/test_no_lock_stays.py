"""After runs, well ended or not, the database holds nothing for us: no lock, no open transaction."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from fleetagent.domain.records import Outcome
from fleetagent.errors import TryLater
from support.on_postgres import OnPostgres, on_postgres
from support.servers import Model, a_model
from support.stores import a_process

RUNS = 50


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    with a_model() as running:
        yield running


@pytest.fixture
async def on(database_url: str, server: Model) -> AsyncIterator[OnPostgres]:
    async with a_process(database_url) as process, on_postgres(process, server) as ready:
        yield ready


LEFT_OVER = """
    SELECT locktype, state FROM pg_stat_activity LEFT JOIN pg_locks USING (pid)
    WHERE application_name = 'fleetagent' AND datname = current_database() AND (locktype IS NOT NULL OR state <> 'idle')
"""
CUT = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'fleetagent' AND datname = current_database()
"""


def left_over(url: str) -> list[tuple[str, ...]]:
    """Locks of the connections that rest in our pool, and those that were left in the middle of something."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(LEFT_OVER).fetchall()


def end_all_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(CUT).fetchone() not in {None, (0,)}


async def test_fifty_runs_leave_nothing_behind(on: OnPostgres, database_url: str) -> None:
    for _ in range(RUNS):
        assert (await on.run()).outcome is Outcome.HELD

    assert left_over(database_url) == []


async def test_a_run_that_failed_and_one_whose_connections_were_ended_leave_nothing_behind(
    on: OnPostgres, server: Model, database_url: str
) -> None:
    server.put("script", [{"status": 401, "body": "no"}] * 3)
    assert (await on.run()).outcome is Outcome.FAILED
    server.put("script", [])
    assert left_over(database_url) == []

    end_all_connections(database_url)
    with contextlib.suppress(TryLater):  # a connection that was well a moment ago is trusted
        await on.run()
    assert (await on.run()).outcome is Outcome.HELD

    assert left_over(database_url) == []
