"""Retention in Postgres: what goes, what stays at any age, and that nobody waits for it."""

import asyncio
from datetime import timedelta

import pytest

from fleetagent.adapters.postgres.audit import PostgresAudit
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Phase
from fleetagent.domain.records import Asked, Outcome, Run
from fleetagent.domain.retention import Past
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import LeaseLost
from support.conversation_contract import said
from support.ledger import launched, seen
from support.past import BEFORE, a_long_past, grow_old, prune
from support.stores import NOON, Process, a_process

HOUR = timedelta(hours=1)
NOTHING_LEFT: list[object] = []


async def a_quiet_run(process: Process, called_by: str = "noon") -> Run:
    """It was called for by the schedule, left a message and is served."""
    lease = await process.lease()
    await process.runs.persist(lease.agent_id, Trigger.SCHEDULE, called_by)
    run = await process.runs.claim(lease, NOON)
    await process.say(run, f"facts of run {run.run_id}")
    await process.conclude(run, quiet=True)
    return run


async def a_younger_run(process: Process) -> Run:
    """The newest one; nothing of it is old."""
    return await a_quiet_run(process, "today")


async def numbers(process: Process, table: str, column: str = "run_id") -> list[object]:
    return [r[column] for r in await process.rows(f"SELECT {column} FROM {table} ORDER BY 1")]  # noqa: S608


async def test_a_run_that_is_over_goes_with_all_that_came_of_it(one: Process) -> None:
    old = await a_quiet_run(one)
    wake = await one.start()
    await one.runs.ask_wake(wake, NOON, "look", limit=5)
    await one.ledger.refuse(wake, Asked("stop", "k", "model", {}), Refusal("TooYoung", "no"))
    await one.conclude(wake, quiet=True)
    await one.conclude(await one.start(), outcome=Outcome.SKIPPED)  # the wake is served
    alert = await one.runs.raise_alert(old.agent_id, 1, "Model", "warning", "look at this")
    await one.runs.tell_alerts(await one.lease())
    await one.runs.acknowledge(old.agent_id, alert or 0, "seen", "acknowledge:1")
    await one.conclude(await one.start(), quiet=True)
    await one.ledger.sample(
        old.agent_id,
        NOON,
        {
            "proving": 1,
            "on_the_way": 0,
            "proofs_per_hour": 1.0,
            "projected_proofs_per_hour": 1.0,
            "target_proofs_per_hour": 1.0,
            "usd_per_hour": 1,
        },
    )
    await grow_old(one)
    young = await a_younger_run(one)

    await prune(one, young.lease)

    assert await numbers(one, "runs") == await numbers(one, "messages") == [young.run_id]
    assert [t["value"] for t in await one.rows("SELECT value FROM triggers")] == ["today"]
    for table in ("wakes", "alerts", "actions", "samples"):
        assert await one.rows(f"SELECT * FROM {table}") == NOTHING_LEFT, table  # noqa: S608


async def test_run_numbers_go_on_after_all_runs_but_the_newest_are_gone(one: Process) -> None:
    for n in range(3):
        await a_quiet_run(one, f"{n}")
    await grow_old(one)

    await prune(one, await one.lease())

    assert await numbers(one, "runs") == [3]
    assert (await one.runs.last((await one.agent()).id)) is not None
    assert (await one.start()).run_id == 4


async def test_what_stands_in_the_prompt_stays_with_its_run(one: Process) -> None:
    run = await one.start()
    await one.say(run, "still shown")
    await one.conclude(run, quiet=False)
    await a_quiet_run(one)
    await grow_old(one)
    young = await a_younger_run(one)

    await prune(one, young.lease)

    assert [m.content for m in await one.conversation.in_prompt(run.session_id)] == ["still shown"]
    assert await numbers(one, "runs") == [run.run_id, young.run_id]


async def test_peoples_words_stay_until_their_session_has_ended(one: Process) -> None:
    run = await one.start()
    await one.conversation.append(run, [said(run, "be frugal", Kind.FEEDBACK), said(run, "facts")])
    await one.conversation.compact(
        run,
        method="Summary",
        because=None,
        masked_before_run=0,
        runs_left=[1],
        leaving_seqs=[1, 2],
        summary="Fleet",
        tokens_before=9,
        tokens_after=1,
    )
    await one.conclude(run, quiet=False)
    await grow_old(one)
    young = await a_younger_run(one)

    await prune(one, young.lease)

    assert [m["content"] for m in await one.rows("SELECT content FROM messages WHERE run_id = 1")] == ["be frugal"]
    assert await one.rows("SELECT * FROM compactions") == NOTHING_LEFT
    assert (await one.agent()).session.feedback_dropped == 1
    assert (await one.agent()).session.summary == "Fleet"

    await one.agents.start_session(await one.lease(), {})
    await grow_old(one)
    young = await a_younger_run(one)
    await prune(one, young.lease)

    assert await numbers(one, "messages") == await numbers(one, "runs") == [young.run_id]
    assert [s["epoch"] for s in await one.rows("SELECT epoch FROM sessions")] == [2]


async def test_one_archived_session_after_the_other_is_emptied_and_forgotten(one: Process) -> None:
    for _ in range(2):
        await a_quiet_run(one)
        await one.agents.start_session(await one.lease(), {})
        await one.agents.start_session(await one.lease(), {})  # nothing was said in this one
    await grow_old(one)
    young = await a_younger_run(one)

    await prune(one, young.lease)

    assert await numbers(one, "messages") == [young.run_id]
    assert await numbers(one, "sessions", "epoch") == [5]


async def test_what_waits_and_what_is_open_stays(one: Process) -> None:
    run = await one.start()
    await one.runs.ask_wake(run, NOON + HOUR, "look", limit=5)
    await one.conclude(run, quiet=True)
    agent_id, lease = run.agent_id, await one.lease()
    await one.runs.persist(agent_id, Trigger.FEEDBACK, "message:m", "waits")
    for code in ("Open", "Acknowledged", "Untold", "Over"):
        await one.runs.raise_alert(agent_id, 1, code, "warning", code)
        if code == "Acknowledged":
            await one.runs.acknowledge(agent_id, 2, "known", "acknowledge:2")
        if code == "Open":
            await one.runs.tell_alerts(lease)
    await one.runs.resolve_alerts(agent_id, "Untold")
    await one.runs.resolve_alerts(agent_id, "Over")
    await one.rows("UPDATE alerts SET told_at = created_at WHERE code IN ('Acknowledged', 'Over') RETURNING id")
    await grow_old(one)

    await prune(one, lease)

    pending, wakes = await one.runs.waiting(agent_id)
    assert (next(p.words for p in pending), [w.reason for w in wakes]) == ("waits", ["look"])
    assert [a["code"] for a in await one.rows("SELECT code FROM alerts ORDER BY id")] == [
        "Open",
        "Acknowledged",
        "Untold",
    ]


async def test_machines_that_live_and_doubts_that_are_not_settled_stay_with_their_actions_and_runs(
    one: Process,
) -> None:
    gone_run = await one.start()
    gone = await launched(one, gone_run, 1)
    await one.conclude(gone_run, quiet=True)
    live_run = await one.start()
    await launched(one, live_run, 2)
    await one.conclude(live_run, quiet=True)
    doubtful_run = await one.start()
    doubtful = await launched(one, doubtful_run, 3)
    await one.rows(f"UPDATE actions SET state = 'unknown' WHERE label = '{doubtful.label}' RETURNING id")  # noqa: S608
    await one.conclude(doubtful_run, quiet=True)
    await seen(one, doubtful_run, gone, NOON, phase=Phase.GONE)
    await grow_old(one)
    young = await a_younger_run(one)

    await prune(one, young.lease)

    assert await numbers(one, "runs") == [live_run.run_id, doubtful_run.run_id, young.run_id]
    assert await numbers(one, "actions") == [live_run.run_id, doubtful_run.run_id]
    assert [i["provider_id"] for i in await one.rows("SELECT provider_id FROM instances ORDER BY id")] == [
        "9002",
        "9003",
    ]


async def test_what_code_did_between_runs_goes_when_it_is_settled_and_its_machine_is_forgotten(one: Process) -> None:
    run = await one.start()
    gone, going = await launched(one, run, 1), await launched(one, run, 2)
    for machine in (gone, going):
        key = f"stop {machine.label}"
        await one.ledger.intend_stop(run.lease, 0, machine, intent_key=key, by="lifecycle", reason="late", now=NOON)
    await one.ledger.stop_asked(run.lease, gone.label, NOON)
    await seen(one, run, gone, NOON, phase=Phase.GONE)
    await one.conclude(run, quiet=True)
    await grow_old(one)

    await prune(one, await one.lease())

    assert await one.rows("SELECT label, state FROM actions WHERE run_id = 0") == [
        {"label": going.label, "state": "intended"}
    ]


async def test_a_machine_that_is_gone_is_remembered_for_a_week_at_least(one: Process) -> None:
    run = await one.start()
    machine = await launched(one, run)
    await seen(one, run, machine, NOON, phase=Phase.GONE)
    await one.rows("UPDATE instances SET gone_at = now() - interval '6 days' RETURNING id")
    await one.conclude(run, quiet=True)
    await one.rows("UPDATE instances SET requested_at = now() - interval '6 days' RETURNING id")
    young = await a_younger_run(one)

    await prune(one, young.lease, before=NOON + timedelta(days=10_000))

    assert await numbers(one, "instances", "provider_id") == ["9001"]
    assert await numbers(one, "actions") == [run.run_id]


async def test_a_run_that_goes_on_and_what_is_young_stay(one: Process) -> None:
    old = await one.start()
    await grow_old(one)
    young = await a_younger_run(one)

    await prune(one, young.lease)

    assert await numbers(one, "runs") == [old.run_id, young.run_id]


async def test_another_agents_past_is_left_alone(one: Process) -> None:
    await a_quiet_run(one)
    theirs = await one.agents.meet(type((await one.agent()).key)("prod", "other"), "uid-2", floor=0, handled={})
    other = await one.agents.take_lease(theirs.id)
    assert other is not None
    run = await one.runs.claim(other, NOON)
    await one.say(run, "theirs")
    await one.conclude(run, quiet=True)
    await grow_old(one)
    young = await a_younger_run(one)

    await prune(one, young.lease)

    assert [m["content"] for m in await one.rows("SELECT content FROM messages ORDER BY run_id")] == [
        "theirs",
        f"facts of run {young.run_id}",
    ]


async def test_fifty_thousand_old_rows_go_in_small_batches_and_an_append_goes_through_between_them(
    one: Process, database_url: str
) -> None:
    agent_id = (await one.agent()).id
    await a_long_past(one, agent_id, runs=12_500)
    run = await one.start()
    appended = 0
    done = asyncio.Event()

    async def append(writer: Process) -> None:
        nonlocal appended
        while not done.is_set():
            await writer.conversation.append(run, [Message(run.run_id, Kind.OBSERVATION, "user", f"{appended}")])
            appended += 1

    async with a_process(database_url, "writer") as writer:
        writing = asyncio.create_task(append(writer))
        batches = await prune(one, run.lease)
        done.set()
        await writing

    assert (sum(batches[Past.MESSAGES]), sum(batches[Past.RUNS])) == (50_000, 12_500)
    assert max(deleted for of_one_table in batches.values() for deleted in of_one_table) <= 1_000
    assert appended >= 10
    assert len(await one.conversation.in_prompt(run.session_id)) == appended
    sizes = await PostgresAudit(one.database).sizes()
    assert sizes["messages"].bytes > 0


async def test_who_has_lost_the_lease_deletes_nothing_more(one: Process, database_url: str) -> None:
    agent_id = (await one.agent()).id
    await a_long_past(one, agent_id, runs=500)
    lease = await one.lease()
    audit = PostgresAudit(one.database)
    first = await audit.prune(lease, Past.MESSAGES, BEFORE, ())
    assert (first.deleted, first.after) == (1_000, ((await one.agent()).session.id, 1_000))

    await one.agents.release(lease)
    async with a_process(database_url, "two") as other:
        assert await other.agents.take_lease(agent_id) is not None
        with pytest.raises(LeaseLost):
            await audit.prune(lease, Past.MESSAGES, BEFORE, first.after or ())

    assert len(await one.rows("SELECT seq FROM messages")) == 1_000


async def test_what_a_deleted_agent_left_goes_with_its_row(one: Process) -> None:
    run = await one.start()
    await launched(one, run)
    await one.say(run, "facts")
    await one.conclude(run, quiet=True)
    await one.agents.forget(await one.lease(), "uid-1")
    await grow_old(one)

    await one.rows("DELETE FROM agents WHERE deleted_at < now() + interval '1 day' RETURNING id")

    for table in ("runs", "messages", "actions", "instances", "sessions"):
        assert await one.rows(f"SELECT * FROM {table}") == NOTHING_LEFT, table  # noqa: S608
