"""A store with the past of a year answers as one that is new: no statement of a run or a look reads a whole table."""

from typing import Any

from fleetagent.adapters.postgres.audit import PostgresAudit
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Phase
from fleetagent.domain.records import Asked
from fleetagent.domain.retention import Past
from fleetagent.domain.schedule import Trigger
from support.conversation_contract import COST, said
from support.ledger import launched, seen
from support.past import BEFORE, a_long_past
from support.plans import blocks_read, statements_of, tables_read_whole
from support.stores import NOON, Process

SMALL = {"alembic_version", "agents", "sessions", "hosts", "spend"}
"""One row in all, or a few for each agent: to read them all is no sign of a missing index."""


async def whole_tables_read(process: Process, statement: str, parameters: Any) -> set[str]:
    """The tables that this statement would read from end to end."""
    async with process.database.transaction() as connection:
        plan = await connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        found = set(tables_read_whole(plan.scalar_one()[0]["Plan"]))
        await connection.rollback()
    return found - SMALL


async def a_look_and_a_run(process: Process) -> None:
    """Every statement that a keeper's look and a run with a launch, a refusal, a wake and a compaction make."""
    agent = await process.agent()
    lease = await process.lease()
    await process.runs.interrupt_stale(lease)
    await process.runs.persist(agent.id, Trigger.SCHEDULE, "noon")
    await process.runs.persist(agent.id, Trigger.EVENT, "machine", "a machine is up")
    await process.runs.persist(agent.id, Trigger.FEEDBACK, "message:m", "be frugal")
    await process.runs.waiting(agent.id)
    run = await process.runs.claim(lease, NOON)
    await process.ledger.pulse(agent.id, run.run_id, NOON)
    machine = await launched(process, run)
    await seen(process, run, machine, NOON, phase=Phase.LOADING, market_status=None)
    await process.ledger.intend_stop(
        lease, run.run_id, machine, intent_key="stop", by="model", reason="too slow", now=NOON
    )
    await process.ledger.stop_asked(lease, machine.label, NOON)
    await process.ledger.refuse(run, Asked("stop", "no", "model", {}), Refusal("TooYoung", "no"))
    await process.conversation.in_prompt(run.session_id)
    await process.conversation.append(run, [said(run, "facts"), said(run, "more")])
    await process.conversation.book(run, COST)
    await process.conversation.compact(
        run,
        method="Summary",
        because=None,
        masked_before_run=0,
        runs_left=[run.run_id],
        leaving_seqs=[m.seq for m in await process.conversation.in_prompt(run.session_id)],
        summary="Fleet",
        tokens_before=9,
        tokens_after=1,
    )
    await process.conversation.notes(agent.id, range(run.run_id - 30, run.run_id))
    await process.runs.ask_wake(run, NOON, "look", limit=5)
    await process.runs.raise_alert(agent.id, run.run_id, "Model", "warning", "look at this")
    await process.runs.raise_alert(agent.id, run.run_id, "Code", "warning", "look at this")
    await process.runs.tell_alerts(lease)
    await process.runs.resolve_alerts(agent.id, "Code")
    await process.ledger.actions(agent.id, run.run_id)
    await process.conclude(run, quiet=True)
    await process.runs.last(agent.id)
    interrupted = await process.runs.claim(lease, NOON)
    await process.runs.interrupt(interrupted, "cancelled")


async def test_no_statement_of_a_look_or_a_run_reads_a_whole_table(one: Process) -> None:
    await a_long_past(one, (await one.agent()).id, runs=20_000)

    with statements_of(one) as sent:
        await a_look_and_a_run(one)
    asked = {s: p for s, p in sent if s.lstrip().startswith(("SELECT", "UPDATE", "INSERT", "DELETE", "WITH"))}

    assert len(asked) >= 40
    reading = {s: read for s, p in asked.items() if (read := await whole_tables_read(one, s, p))}
    assert reading == {}


async def test_pruning_reads_no_whole_table(one: Process) -> None:
    await a_long_past(one, (await one.agent()).id, runs=20_000)
    lease = await one.lease()

    with statements_of(one) as sent:
        for what in Past:
            await PostgresAudit(one.database).prune(lease, what, BEFORE, ())

    reading = {s: read for s, p in sent if (read := await whole_tables_read(one, s, p))}
    assert reading == {}


async def test_loading_the_prompt_reads_the_prompt_and_not_the_history(one: Process) -> None:
    agent = await one.agent()
    await a_long_past(one, agent.id, runs=20_000)
    run = await one.start()
    await one.conversation.append(run, [said(run, f"{n}") for n in range(150)])
    with statements_of(one) as sent:
        await one.conversation.in_prompt(run.session_id)

    ((statement, parameters),) = sent
    async with one.database.transaction() as connection:
        plan = await connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
        read = plan.scalar_one()[0]["Plan"]

    assert read["Actual Rows"] == 150
    assert blocks_read(read) < 30
