"""Runs in Postgres: numbered without gap or repeat, served once, given back when interrupted, owned by one process."""

import asyncio
from dataclasses import replace

import pytest

from fleetagent.domain.observation import Alert
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import LeaseLost
from support.stores import NOON, Process, a_process

SCHEDULE, REQUEST, FEEDBACK, EVENT = Trigger.SCHEDULE, Trigger.REQUEST, Trigger.FEEDBACK, Trigger.EVENT


async def test_run_numbers_rise_by_one_and_never_fall_below_what_the_status_knows(one: Process) -> None:
    for expected in (1, 2):
        run = await one.start()
        assert run.run_id == expected
        await one.conclude(run)

    await one.agent(floor=41)

    assert (await one.start()).run_id == 42


async def test_processes_that_meet_a_new_agent_at_once_agree_on_one_row_and_one_session(
    one: Process, two: Process
) -> None:
    met = await asyncio.gather(*(p.agent() for p in (one, two) * 5))

    assert len({(m.id, m.session.id) for m in met}) == 1
    assert len(await one.rows("SELECT * FROM sessions")) == 1


async def test_a_claim_takes_all_that_waits_and_a_conclusion_serves_it(one: Process) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, REQUEST, "a")
    await one.runs.persist(agent.id, FEEDBACK, "message:m", "be frugal")

    run = await one.start()
    assert run.calls.kinds == (REQUEST, FEEDBACK)
    await one.conclude(run)

    assert await one.runs.waiting(agent.id) == ((), ())
    assert (await one.agent()).handled == {"request": "a", "message": "m"}


async def test_a_value_that_waits_is_being_served_or_has_been_served_is_not_persisted_again(one: Process) -> None:
    agent = await one.agent()

    async def again() -> bool:
        return await one.runs.persist(agent.id, FEEDBACK, "message:m", "be frugal")

    assert await again()
    assert not await again()
    run = await one.start()
    assert not await again()
    await one.conclude(run)
    assert not await again()


async def test_a_value_persisted_by_many_at_once_while_a_run_concludes_is_served_once(
    one: Process, two: Process
) -> None:
    agent = await one.agent()
    for n in range(10):
        await one.runs.persist(agent.id, REQUEST, str(n))
        run = await one.start()
        again = [p.runs.persist(agent.id, REQUEST, str(n)) for p in (one, two, one, two)]
        wrote = await asyncio.gather(one.conclude(run), *again)
        assert not any(wrote)


async def test_an_event_during_a_run_waits_for_the_next_one(one: Process) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, EVENT, "m1 doomed", "it went")
    run = await one.start()

    assert await one.runs.persist(agent.id, EVENT, "m1 doomed", "it went")
    await one.conclude(run)

    pending, _ = await one.runs.waiting(agent.id)
    assert [p.value for p in pending] == ["m1 doomed"]


async def test_events_that_nobody_fetches_do_not_pile_up_without_end_and_the_newest_stays(one: Process) -> None:
    agent = await one.agent()

    for n in range(130):
        await one.runs.persist(agent.id, EVENT, f"flap {n}", f"flap {n}")

    pending, _ = await one.runs.waiting(agent.id)
    assert len(pending) == 100
    assert (pending[0].value, pending[-1].value) == ("flap 0", "flap 129")


async def test_an_interrupted_run_gives_back_what_called_for_it_and_its_words_leave_the_prompt(one: Process) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, FEEDBACK, "message:m", "be frugal")
    run = await one.start()
    await one.say(run, "half a thought")

    await one.runs.interrupt(run, "the session is reset")

    assert await one.conversation.in_prompt(run.session_id) == ()
    assert [r["left_prompt_because"] for r in await one.rows("SELECT * FROM messages")] == ["interrupted"]
    next_run = await one.start()
    assert [p.words for p in next_run.calls.pending] == ["be frugal"]
    assert next_run.run_id == run.run_id + 1


async def test_what_interrupts_its_runs_is_given_back_three_times_then_dropped_with_an_alert(one: Process) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, REQUEST, "poison")
    asking = await one.start()
    await one.runs.ask_wake(asking, NOON, "poison too", limit=5)
    await one.conclude(asking)
    await one.runs.persist(agent.id, REQUEST, "poison 2")

    for _ in range(4):
        run = await one.start()
        assert (len(run.calls.pending), len(run.calls.wakes)) == (1, 1)
        await one.runs.interrupt(run, "killed")

    assert await one.runs.waiting(agent.id) == ((), ())
    assert (await one.agent()).handled["request"] == "poison 2"
    (alert,) = await one.rows("SELECT * FROM alerts")
    assert "Request poison 2" in alert["message"]
    assert "Wake poison too" in alert["message"]
    (told,) = await one.runs.tell_alerts(await one.lease())
    assert (told.id, told.code, told.message) == (alert["id"], "TriggerGivenUp", alert["message"])


async def test_runs_that_somebody_wanted_to_end_are_no_tries_however_many_there_are(one: Process) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, REQUEST, "during an upgrade")

    for _ in range(6):
        await one.runs.interrupt(await one.start(), "the process ends", wanted=True)
    for _ in range(3):
        await one.runs.interrupt(await one.start(), "killed")

    run = await one.start()
    assert [p.value for p in run.calls.pending] == ["during an upgrade"]
    assert await one.rows("SELECT * FROM alerts") == []


async def test_why_a_run_failed_is_remembered_for_whoever_reports_next(one: Process, two: Process) -> None:
    run = await one.start()
    await one.conclude(run, outcome=Outcome.FAILED, reason="Unavailable", error="no answer", model_failed=True)

    last = await two.runs.last(run.agent_id)

    assert last is not None
    assert (last.outcome, last.reason, last.error) == ("Failed", "Unavailable", "no answer")


async def test_each_alert_is_to_be_told_once_by_who_owns_the_agent(one: Process, two: Process) -> None:
    lease, agent_id = await one.lease(), (await one.agent()).id
    ids = [await one.runs.raise_alert(agent_id, 0, code, "warning", "look") for code in ("OverBudget", "FleetUnknown")]
    assert await two.runs.raise_alert(agent_id, 0, "OverBudget", "warning", "look") is None

    with pytest.raises(LeaseLost):
        await two.runs.tell_alerts(replace(lease, token=lease.token - 1))
    assert [a.id for a in await one.runs.tell_alerts(lease)] == ids
    assert await one.runs.tell_alerts(lease) == ()
    assert {a.code: a.severity for a in await told_anew(one, agent_id)} == {"OverBudget": "critical"}


async def test_an_alert_that_stands_says_what_is_true_now_and_is_told_once(one: Process) -> None:
    lease, agent_id = await one.lease(), (await one.agent()).id
    await one.runs.raise_alert(agent_id, 0, "OverBudget", "warning", "over budget: 4.10 USD/h of 4.00")
    await one.runs.tell_alerts(lease)

    assert await one.runs.raise_alert(agent_id, 0, "OverBudget", "warning", "over budget: 9.00 USD/h of 4.00") is None

    assert await one.runs.tell_alerts(lease) == ()
    pulse = await one.ledger.pulse(agent_id, 0, NOON)
    assert [a.message for a in pulse.alerts] == ["over budget: 9.00 USD/h of 4.00"]


async def told_anew(process: Process, agent_id: int) -> tuple[Alert, ...]:
    """What is to be told when a known alert is over and comes back."""
    await process.runs.resolve_alerts(agent_id, "OverBudget")
    await process.runs.raise_alert(agent_id, 0, "OverBudget", "critical", "look again")
    return await process.runs.tell_alerts(await process.lease())


async def test_an_interruption_that_comes_after_the_conclusion_changes_nothing(one: Process) -> None:
    run = await one.start()
    await one.say(run, "a whole thought")
    await one.conclude(run)

    await one.runs.interrupt(run, "too late")

    assert [m.content for m in await one.conversation.in_prompt(run.session_id)] == ["a whole thought"]
    assert [r["state"] for r in await one.rows("SELECT * FROM runs")] == ["finished"]


async def test_a_run_left_by_a_dead_process_is_closed_by_whoever_owns_the_agent_next(
    one: Process, database_url: str
) -> None:
    async with a_process(database_url, "dead") as dead:
        agent = await dead.agent()
        await dead.runs.persist(agent.id, REQUEST, "r")
        run = await dead.start()
    await one.rows("UPDATE agents SET lease_until = clock_timestamp() RETURNING 1")
    lease = await one.lease()

    assert await one.runs.interrupt_stale(lease) == (run.run_id,)

    assert [p.value for p in (await one.start()).calls.pending] == ["r"]


async def test_while_one_process_owns_an_agent_another_gets_no_lease_until_it_is_released(
    one: Process, two: Process
) -> None:
    lease = await one.lease()

    assert await two.agents.take_lease(lease.agent_id) is None
    await one.agents.release(lease)
    assert await two.agents.take_lease(lease.agent_id) is not None


async def test_a_process_that_lost_its_lease_writes_nothing_more(one: Process, two: Process) -> None:
    run = await one.start()
    await one.agents.release(run.lease)
    await two.lease()

    writes = [
        one.agents.check(run.lease),
        one.agents.mark_handled(run.lease, {"request": "x"}),
        one.agents.schedule(run.lease, NOON, "hash"),
        one.agents.start_session(run.lease, {}),
        one.say(run, "late"),
        one.runs.ask_wake(run, NOON, "late", limit=5),
        one.runs.cancel_wake(run, 1),
        one.runs.claim(run.lease, NOON),
        one.runs.persist_owned(run.lease, Trigger.SCHEDULE, "2026-11-30T12:00:00Z"),
        one.conclude(run),
        one.runs.interrupt(run, "late"),
    ]
    for write in writes:
        with pytest.raises(LeaseLost):
            await write
    await one.agents.release(run.lease)
    assert await one.agents.take_lease(run.agent_id) is None


async def test_two_processes_that_race_for_runs_never_run_at_the_same_time_and_never_share_a_number(
    one: Process, two: Process
) -> None:
    agent, going_on = await one.agent(), 0
    numbers: list[int] = []

    async def work(process: Process) -> None:
        nonlocal going_on
        while len(numbers) < 20:
            lease = await process.agents.take_lease(agent.id)
            if lease is None:
                await asyncio.sleep(0)
                continue
            run = await process.runs.claim(lease, NOON)
            numbers.append(run.run_id)
            going_on += 1
            assert going_on == 1
            await process.say(run, "mine")
            going_on -= 1
            await process.conclude(run)
            await process.agents.release(lease)

    await asyncio.gather(work(one), work(two))

    assert numbers == list(range(1, len(numbers) + 1))
