"""Sessions and wakes in Postgres: what a reset archives, what it keeps, and what a late writer can no longer reach."""

import asyncio
from datetime import timedelta

import pytest

from fleetagent.adapters.postgres.tables import instances
from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.adapters.postgres.workers import PostgresWorkers
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import LeaseLost
from support.ledger import an_intent
from support.stores import NOON, Process

MINUTE = timedelta(minutes=1)
INTENT = an_intent(worker_token_hash=token_hash("secret"))


async def test_a_reset_archives_the_conversation_and_keeps_counter_wakes_and_triggers(one: Process) -> None:
    run = await one.start()
    await one.say(run, "old")
    wake = await one.runs.ask_wake(run, NOON + MINUTE, "look", limit=5)
    await one.conclude(run)
    await one.runs.persist(run.agent_id, Trigger.FEEDBACK, "message:m", "be frugal")

    await one.agents.start_session(await one.lease(), {"reset": "r"})

    agent = await one.agent()
    assert (agent.session.epoch, agent.session.messages_in_prompt, agent.handled) == (2, 0, {"reset": "r"})
    assert [m["left_prompt_because"] for m in await one.rows("SELECT * FROM messages")] == ["reset"]
    assert [s["ended_at"] is None for s in await one.rows("SELECT * FROM sessions ORDER BY id")] == [False, True]
    pending, wakes = await one.runs.waiting(run.agent_id)
    assert ([p.words for p in pending], wakes) == (["be frugal"], (wake,))
    assert (await one.start()).run_id == run.run_id + 1


async def test_a_run_of_the_old_session_reaches_nothing_of_the_new_one_but_its_effect_is_still_recorded(
    one: Process,
) -> None:
    run = await one.start()
    action = await one.ledger.intend_launch(run, INTENT, NOON)
    await one.agents.start_session(run.lease, {})

    for late in (
        one.say(run, "late"),
        one.conclude(run),
        one.runs.ask_wake(run, NOON, "late", limit=5),
        one.ledger.intend_launch(run, INTENT, NOON),
    ):
        with pytest.raises(LeaseLost):
            await late
    await one.ledger.launched(run.lease, action, "4711")

    assert await one.rows("SELECT * FROM messages") == []
    assert [r["state"] for r in await one.rows("SELECT * FROM runs")] == ["interrupted"]
    (row,) = await one.rows("SELECT state, provider_ref FROM actions")
    assert row == {"state": "done", "provider_ref": "4711"}


async def test_another_resource_of_the_same_name_gets_a_new_session_and_goes_on_counting_without_old_calls(
    one: Process,
) -> None:
    run = await one.start()
    await one.runs.ask_wake(run, NOON, "old", limit=5)
    await one.runs.persist(run.agent_id, Trigger.FEEDBACK, "message:m", "to the one that is gone")

    again = await one.agent(uid="uid-2")

    assert (again.id, again.last_run_id, again.session.epoch, again.spec_hash) == (run.agent_id, 1, 2, None)
    assert await one.runs.waiting(run.agent_id) == ((), ())
    assert [r["state"] for r in await one.rows("SELECT * FROM runs")] == ["interrupted"]


async def test_a_process_whose_watch_lags_does_not_bring_a_replaced_resource_back(one: Process) -> None:
    await one.agent(uid="uid-1")
    await one.agent(uid="uid-2")

    with pytest.raises(LeaseLost, match="was replaced by another one of the same name"):
        await one.agent(uid="uid-1")

    new = await one.agent(uid="uid-2")
    assert (new.uid, new.session.epoch) == ("uid-2", 2)


async def test_who_still_works_for_a_replaced_resource_writes_nothing_more(one: Process) -> None:
    run = await one.start()

    await one.agent(uid="uid-2")

    assert (await one.leases.renew({run.lease})).lost == {run.lease}
    with pytest.raises(LeaseLost):
        await one.agents.check(run.lease)


async def test_a_deleted_agent_is_known_as_deleted_until_its_name_lives_again(one: Process) -> None:
    await one.agents.forget(await one.lease(), "uid-1")

    assert (await one.agent()).deleted
    assert not (await one.agent(uid="uid-2")).deleted


async def test_a_wake_fires_once_and_is_gone_from_what_waits(one: Process) -> None:
    run = await one.start()
    wake = await one.runs.ask_wake(run, NOON + MINUTE, "look", limit=5)
    await one.conclude(run)

    early = await one.start(now=NOON + MINUTE / 2)
    assert early.calls.wakes == ()
    await one.conclude(early)
    due = await one.start(now=NOON + MINUTE)
    assert due.calls.wakes == (wake,)
    assert Trigger.WAKE in due.calls.kinds
    await one.conclude(due)

    assert (await one.start(now=NOON + 2 * MINUTE)).calls.wakes == ()
    assert [w["state"] for w in await one.rows("SELECT * FROM wakes")] == ["processed"]


async def test_wakes_are_limited_merged_when_alike_and_never_earlier_than_asked_for(one: Process) -> None:
    run = await one.start()
    asked = NOON + MINUTE + timedelta(milliseconds=1)

    first = await one.runs.ask_wake(run, asked, "look", limit=2)
    assert first is not None
    assert first.at >= asked
    assert await one.runs.ask_wake(run, asked + MINUTE / 2, "look", limit=2) == first
    assert await one.runs.ask_wake(run, asked, "something else", limit=2) is not None
    assert await one.runs.ask_wake(run, asked, "one too many", limit=2) is None

    assert await one.runs.cancel_wake(run, first.id)
    assert not await one.runs.cancel_wake(run, first.id)
    assert not await one.runs.cancel_wake(run, 10**30)
    assert await one.runs.ask_wake(run, asked, "there is room again", limit=2) is not None


async def test_callbacks_of_a_machine_and_looks_at_the_fleet_do_not_block_each_other(one: Process) -> None:
    run = await one.start()
    await one.ledger.intend_launch(run, INTENT, NOON)
    workers = PostgresWorkers(one.database)
    registered = await workers.register("secret", "", NOON)
    assert registered is not None

    async def callbacks() -> None:
        for n in range(1, 16):
            at = NOON + n * MINUTE
            await workers.register("secret", "", at)
            await workers.params_done("secret", registered.uuid, at)
            await workers.bench_done("secret", registered.uuid, 60.0, at + MINUTE / 2)

    async def looks() -> None:
        for n in range(40):
            async with one.database.owned(run.lease) as connection:  # as the ledger settles: first the agent's row
                await asyncio.sleep(0)
                await connection.execute(instances.update().values(billed_until=NOON + n * MINUTE))

    await asyncio.gather(callbacks(), looks())

    pending, _ = await one.runs.waiting(run.agent_id)
    assert len(pending) == 15 + 14  # fifteen benchmarks; each registration but the first says that it has restarted
