"""Pages of what is read neither repeat nor miss a row, and what cannot be asked for is refused."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from fleetagent.adapters.postgres.reading import PostgresReading
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.views import Page
from fleetagent.errors import BadCursor
from fleetagent.ports.reading import EVERYTHING, Slice
from support.ledger import an_intent
from support.stores import KEY, NOON, Process

MINUTE = timedelta(minutes=1)


@pytest.fixture
def reading(one: Process) -> PostgresReading:
    return PostgresReading(one.database, cluster="test")


async def all_of(page: Callable[[Slice], Awaitable[Page[Any]]], limit: int) -> list[Any]:
    """Page by page to the end."""
    found: list[Any] = []
    after = None
    while True:
        got = await page(Slice(limit=limit, after=after))
        assert len(got.items) <= limit
        found += got.items
        if got.next is None:
            return found
        after = got.next


async def test_pages_of_every_list_neither_repeat_nor_miss_a_row(one: Process, reading: PostgresReading) -> None:
    agent = await one.agent()
    for n in range(7):
        run = await one.start(NOON + n * MINUTE)
        await one.say(run, f"facts {n}")
        await one.ledger.intend_launch(run, an_intent(n), NOON + n * MINUTE)
        await one.runs.ask_wake(run, NOON + (20 - n) * 10 * MINUTE, f"look {n}", limit=50)
        await one.runs.raise_alert(agent.id, run.run_id, f"Code{n}", "warning", "look")
        await one.conclude(run)
        if n < 3:
            await one.agents.start_session(run.lease, {})

    assert [r.run_id for r in await all_of(lambda s: reading.runs(KEY, s), 3)] == [7, 6, 5, 4, 3, 2, 1]
    assert [r.epoch for r in await all_of(lambda s: reading.sessions(KEY, s), 3)] == [4, 3, 2, 1]
    current = await all_of(lambda s: reading.conversation(KEY, None, s), 2)
    assert [m.content for m in current] == ["facts 6", "facts 5", "facts 4", "facts 3"]
    pages: tuple[Callable[[Slice], Awaitable[Page[Any]]], ...] = (
        lambda s: reading.actions(KEY, s),
        lambda s: reading.machines(KEY, s),
        lambda s: reading.wakes(KEY, s),
        lambda s: reading.alerts(KEY, s),
        lambda s: reading.alerts(KEY, s, state="open"),
    )
    for page in pages:
        ids = [getattr(row, "id", None) or row.number for row in await all_of(page, 2)]
        assert len(ids) == 7
        assert ids == sorted(ids, reverse=True)
    pending = await all_of(lambda s: reading.wakes(KEY, s, state="pending"), 2)
    assert [w.reason for w in pending] == [f"look {n}" for n in (6, 5, 4, 3, 2, 1, 0)]


async def test_filters_leave_what_was_asked_for(one: Process, reading: PostgresReading) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, Trigger.REQUEST, "now")
    for n, outcome in enumerate((Outcome.ACTED, Outcome.HELD, Outcome.FAILED, Outcome.HELD)):
        run = await one.start(NOON + n * MINUTE)
        await one.conclude(run, outcome=outcome)

    async def runs(which: Slice = EVERYTHING, **filters: str) -> list[int]:
        return [r.run_id for r in (await reading.runs(KEY, which, **filters)).items]

    assert await runs(outcome="Held") == [4, 2]
    assert await runs(Slice(limit=1), outcome="Held") == [4]
    assert await runs(trigger="Request") == [1]
    assert await runs(outcome="Held", trigger="Request") == []
    assert await runs(Slice(since=NOON + MINUTE, until=NOON + 3 * MINUTE)) == [3, 2]
    assert await runs(Slice(until=NOON)) == []
    assert await runs(Slice(since=NOON + 3 * MINUTE)) == [4]


async def test_a_time_is_found_although_clocks_differ_and_what_waited_bears_a_later_time(
    one: Process, reading: PostgresReading
) -> None:
    """A row a minute; the clocks of two processes are nine minutes apart, one action in three waited for hours."""
    agent = await one.agent()
    given = {"agent": agent.id, "session": agent.session.id, "noon": NOON}
    async with one.database.transaction() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO runs (agent_id, run_id, session_id, state, lease_token, started_at)"
            " SELECT %(agent)s, n, %(session)s, 'finished', 0, %(noon)s + (n + 9 * (n %% 2)) * interval '1 min'"
            " FROM generate_series(1, 3000) n",
            given,
        )
        await connection.exec_driver_sql(
            "INSERT INTO actions (agent_id, run_id, intent_key, kind, by, state, created_at)"
            " SELECT %(agent)s, n, n, 'stop', 'model', 'done',"
            " %(noon)s + (n + 1440 * CAST(n %% 3 = 0 AS int)) * interval '1 min' FROM generate_series(1, 3000) n",
            given,
        )

    for begin, minutes in ((0, 40), (7, 3), (1500, 60), (1440, 1), (2990, 30), (4400, 100), (5000, 10)):
        which = Slice(limit=200, since=NOON + begin * MINUTE, until=NOON + (begin + minutes) * MINUTE)
        wanted = range(begin, begin + minutes)
        runs = [r.run_id for r in (await reading.runs(KEY, which)).items]
        assert runs == [n for n in range(3000, 0, -1) if n + 9 * (n % 2) in wanted]
        actions = [a.run_id for a in (await reading.actions(KEY, which)).items]
        assert actions == [n for n in range(3000, 0, -1) if n + 1440 * (n % 3 == 0) in wanted]


@pytest.mark.parametrize(
    "after",
    ["", "!", "a" * 1000, "e30", "bnVsbA", "WzFd", "WyJydW5zIiwgIjEiXQ", "WyJydW5zIiwtMV0", "WyJydW5zIix0cnVlXQ"],
)
async def test_a_cursor_that_is_none_is_refused(reading: PostgresReading, one: Process, after: str) -> None:
    await one.agent()
    for page in (reading.runs, reading.actions, lambda k, s: reading.wakes(k, s, state="pending")):
        with pytest.raises(BadCursor, match="`after` is no cursor of this list"):
            await page(KEY, Slice(after=after))


async def test_a_cursor_of_another_list_is_refused(reading: PostgresReading, one: Process) -> None:
    for _ in range(2):
        await one.conclude(await one.start())
    after = (await reading.runs(KEY, Slice(limit=1))).next

    with pytest.raises(BadCursor):
        await reading.actions(KEY, Slice(after=after))


async def test_ids_beyond_what_the_database_counts_to_are_nobodys(reading: PostgresReading, one: Process) -> None:
    run = await one.start()
    for number in (10**30, -1, run.session_id + 1):
        assert await reading.run(KEY, number) is None
        assert await reading.session(KEY, number) is None
        assert (await reading.actions(KEY, run_id=number)).items == ()
        assert [m async for m in reading.export(KEY, number)] == []
