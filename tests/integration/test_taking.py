"""A keeper's pass at the database: one statement owns the agent, one reads it; and one for all that is called for."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from fleetagent.domain.records import Taken
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import LeaseLost
from support.stores import KEY, NOON, Process


async def take(process: Process, uid: str = "uid-1", floor: int = 0) -> Taken:
    taken = await process.agents.take(KEY, uid, floor=floor, handled={}, now=NOON)
    assert taken is not None
    return taken


async def test_what_is_taken_is_what_is_met_and_what_waits(one: Process) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, Trigger.FEEDBACK, "message:m", "be frugal")
    run = await one.start()
    await one.runs.ask_wake(run, NOON + timedelta(hours=1), "later", limit=5)
    await one.runs.ask_wake(run, NOON + timedelta(minutes=1), "sooner", limit=5)
    await one.say(run, "facts")
    await one.conclude(run)
    await one.runs.persist(agent.id, Trigger.REQUEST, "now")
    await one.runs.raise_alert(agent.id, 1, "Code", "warning", "look")

    taken = await take(one)

    assert taken.record == await one.agent()
    assert (taken.pending, taken.wakes) == await one.runs.waiting(agent.id)
    assert [w.reason for w in taken.wakes] == ["sooner", "later"]
    assert (taken.left_running, taken.waited_too_long, taken.untold) == (False, False, True)


async def test_who_is_taken_by_one_process_is_not_taken_by_another_until_it_is_let_go(
    one: Process, two: Process
) -> None:
    taken = await take(one)

    assert await two.agents.take(KEY, "uid-1", floor=0, handled={}, now=NOON) is None
    await one.agents.release(taken.lease)
    assert (await take(two)).lease.token > taken.lease.token
    with pytest.raises(LeaseLost):
        await one.agents.check(taken.lease)


async def test_an_agent_that_nobody_knows_is_introduced_and_one_that_was_made_again_has_a_new_session(
    one: Process,
) -> None:
    first = await take(one)
    await one.agents.release(first.lease)

    again = await take(one, uid="uid-2", floor=41)

    assert again.record.uid == "uid-2"
    assert again.record.session.id != first.record.session.id
    assert again.record.last_run_id == 41


async def test_a_resource_that_was_deleted_to_its_end_is_not_taken(one: Process) -> None:
    taken = await take(one)
    await one.agents.forget(taken.lease, "uid-1")

    with pytest.raises(LeaseLost):
        await one.agents.take(KEY, "uid-1", floor=0, handled={}, now=NOON)


async def test_a_run_that_a_dead_process_left_is_seen_by_who_takes_over(one: Process, two: Process) -> None:
    lease = await one.lease()
    await one.runs.claim(lease, NOON)
    assert await two.agents.waiting() == frozenset(), "it goes on"
    async with one.database.transaction() as connection:
        await connection.execute(sa.text("UPDATE agents SET lease_until = now()"))

    assert await two.agents.waiting() == {(KEY, "run 1")}
    assert (await take(two)).left_running


async def test_all_that_calls_for_an_agent_is_told_with_a_mark_and_nothing_else(one: Process) -> None:
    agent = await one.agent()
    run = await one.start()
    await one.runs.ask_wake(run, NOON - timedelta(days=9000), "long due", limit=5)
    await one.runs.ask_wake(run, NOON + timedelta(days=9000), "far away", limit=5)
    await one.conclude(run)
    assert await one.agents.waiting() == {(KEY, "wake 1")}

    await one.runs.persist(agent.id, Trigger.EVENT, "m1 doomed", "it went")
    await one.runs.raise_alert(agent.id, 1, "Code", "warning", "look")
    assert await one.agents.waiting() == {(KEY, "wake 1"), (KEY, "trigger 1"), (KEY, "alert 1")}

    await one.runs.persist(agent.id, Trigger.EVENT, "m2 doomed", "it went")
    assert (KEY, "trigger 2") in await one.agents.waiting()

    claimed = await one.start()
    assert await one.agents.waiting() == {(KEY, "alert 1")}, "the run has them"
    await one.conclude(claimed)
    await one.runs.tell_alerts(await one.lease())
    assert await one.agents.waiting() == frozenset()
