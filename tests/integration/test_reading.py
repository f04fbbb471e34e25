"""What page and API read: all that stands, of the right agent and of no other."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.reading import PostgresReading
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Phase
from fleetagent.domain.records import AgentKey, Asked, Outcome, Spent
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.views import Page
from fleetagent.errors import TryLater
from support.ledger import launched, seen
from support.stores import KEY, NOON, Process

MINUTE = timedelta(minutes=1)
OTHER = AgentKey("prod", "other")
NOBODY = AgentKey("prod", "nobody")


@pytest.fixture
def reading(one: Process) -> PostgresReading:
    return PostgresReading(one.database, cluster="test")


async def a_refusing_run(process: Process) -> int:
    """It rents a machine, is refused another one and asks for a wake."""
    await process.runs.persist((await process.agent()).id, Trigger.REQUEST, "please")
    run = await process.start()
    await process.say(run, "facts")
    call = ToolCall("r1_1_0", "launch", '{"offer": 7}')
    reply = Message(run.run_id, Kind.REPLY, "assistant", "", (call,), tokens=9)
    result = Message(run.run_id, Kind.TOOL_RESULT, "tool", "launched", tool_call_id=call.id, history_content="launc")
    await process.conversation.append(run, [reply, result])
    machine = await launched(process, run)
    await seen(process, run, machine, NOON + MINUTE, phase=Phase.LOADING)
    await process.ledger.refuse(run, Asked("launch", "no", "model", {"offer_id": "8"}), Refusal("TooDear", "too dear"))
    await process.conversation.book(run, Spent(1, 100, 10, 50, Decimal("0.000000321")))
    await process.runs.ask_wake(run, NOON + 9 * MINUTE, "look", limit=5)
    await process.runs.raise_alert(run.agent_id, run.run_id, "Model", "warning", "look at this")
    verdict = {"action": True, "state_changed": True}
    await process.conclude(run, outcome=Outcome.ACTED, summary="launched", verdict=verdict, next_prompt_tokens=120)
    return run.run_id


async def test_an_agent_stands_with_its_last_run_session_fleet_and_todays_cost(
    one: Process, reading: PostgresReading
) -> None:
    run_id = await a_refusing_run(one)
    today = datetime.now(UTC).date()  # noqa: TID251 - the database's clock
    async with one.database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE spend SET day = %(today)s", {"today": today})
    await one.ledger.sample(
        (await one.agent()).id,
        NOON,
        {
            "proving": 1,
            "on_the_way": 2,
            "proofs_per_hour": 95.5,
            "projected_proofs_per_hour": 120.0,
            "target_proofs_per_hour": 500.0,
            "usd_per_hour": Decimal("0.60"),
        },
    )

    (agent,) = await reading.agents(("prod", "elsewhere"))

    assert agent == await reading.agent(KEY)
    assert (agent.namespace, agent.name, agent.uid, agent.last_run_id) == ("prod", "porep", "uid-1", run_id)
    assert (agent.open_alerts, agent.waiting_actions, agent.pending_wakes) == (1, 0, 1)
    assert agent.last_run is not None
    assert (agent.last_run.outcome, agent.last_run.triggers) == ("Acted", ("Request",))
    assert (agent.last_run.actions, agent.last_run.refusals) == (1, 1)
    assert agent.session is not None
    assert (agent.session.messages, agent.session.messages_in_prompt, agent.session.next_prompt_tokens) == (3, 3, 120)
    assert agent.sample is not None
    assert agent.sample.proofs_per_hour == 95.5
    assert agent.spend_today is not None
    assert (agent.spend_today.model_usd, agent.spend_today.model_tokens) == (Decimal("0.000000321"), 110)
    assert agent.to_wire()["spendToday"]["modelUsd"] == "0.000000321"
    assert agent.to_wire()["sample"]["at"] == "2026-11-29T12:00:00Z"


async def test_a_run_is_read_with_all_that_belongs_to_it(one: Process, reading: PostgresReading) -> None:
    run_id = await a_refusing_run(one)

    run = await reading.run(KEY, run_id)

    assert run is not None
    assert run.verdict == {"action": True, "state_changed": True}
    assert [(a.kind, a.state, a.refusal_code, a.refusal) for a in run.actions] == [
        ("launch", "done", None, None),
        ("launch", "refused", "TooDear", "too dear"),
    ]
    assert [(m.seq, m.role, m.history_content) for m in run.messages] == [
        (1, "user", None),
        (2, "assistant", None),
        (3, "tool", "launc"),
    ]
    assert run.messages[1].tool_calls == ({"id": "r1_1_0", "name": "launch", "arguments": '{"offer": 7}'},)
    assert run.compactions == ()


async def test_what_a_compaction_left_out_is_told_with_its_reason(one: Process, reading: PostgresReading) -> None:
    first = await one.start()
    await one.say(first, "old")
    await one.conclude(first)
    run = await one.start()
    await one.conversation.compact(
        run,
        method="Digest",
        because="the summary was empty",
        masked_before_run=0,
        runs_left=[first.run_id],
        leaving_seqs=[1],
        summary="Held.",
        tokens_before=900,
        tokens_after=100,
    )
    await one.say(run, "new")

    (compaction,) = await reading.compactions(KEY)
    assert (compaction.method, compaction.because, compaction.runs_left) == ("Digest", "the summary was empty", (1,))
    its_run = await reading.run(KEY, run.run_id)
    assert its_run is not None
    assert its_run.compactions == (compaction,)
    told = await reading.conversation(KEY)
    assert [(m.content, m.left_prompt_because) for m in told.items] == [("new", None), ("old", "compacted")]
    shown = await reading.conversation(KEY, in_prompt=True)
    assert [m.content for m in shown.items] == ["new"]


async def test_actions_are_found_by_run_and_by_state(one: Process, reading: PostgresReading) -> None:
    run_id = await a_refusing_run(one)

    async def found(**filters: object) -> list[str]:
        return [a.state for a in (await reading.actions(KEY, **filters)).items]  # type: ignore[arg-type]

    assert await found() == ["refused", "done"]
    assert await found(run_id=run_id) == ["refused", "done"]
    assert await found(run_id=run_id + 1) == []
    assert await found(states=("refused",)) == ["refused"]
    assert await found(states=("waiting",)) == []
    assert await found(states=("done", "failed"), run_id=run_id) == ["done"]


async def test_machines_tell_their_phases_and_those_that_are_gone_only_when_asked_for(
    one: Process, reading: PostgresReading
) -> None:
    run = await one.start()
    machine = await launched(one, run)
    await seen(one, run, machine, NOON + MINUTE, phase=Phase.LOADING)

    (alive,) = (await reading.machines(KEY)).items
    assert [(p.phase, p.at) for p in alive.timeline] == [("requested", NOON), ("loading", NOON + MINUTE)]
    assert (alive.number, alive.host_id, alive.usd_per_hour) == (1, "m1", Decimal("0.60"))

    await seen(one, run, replace(machine, phase=Phase.LOADING), NOON + 2 * MINUTE, phase=Phase.GONE)
    assert (await reading.machines(KEY)).items == ()
    (gone,) = (await reading.machines(KEY, ended=True)).items
    assert gone.gone_at == NOON + 2 * MINUTE


async def test_spend_is_told_by_day_and_the_fleet_over_time_thinned_to_what_a_plot_can_show(
    one: Process, reading: PostgresReading
) -> None:
    agent = await one.agent()
    async with one.database.transaction() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO spend (agent_id, day, kind, usd, tokens) SELECT %(agent)s, current_date - n, kind, n, n"
            " FROM generate_series(0, 40) n, unnest(ARRAY['fleet', 'model']) kind",
            {"agent": agent.id},
        )
        await connection.exec_driver_sql(
            "INSERT INTO samples SELECT %(agent)s, %(noon)s::timestamptz + n * interval '1 s', n, 0, n, n, 0, 0"
            " FROM generate_series(0, 9999) n",
            {"agent": agent.id, "noon": NOON},
        )

    days = await reading.spend(KEY, days=7)
    assert [d.fleet_usd for d in days] == [Decimal(n) for n in range(7)]
    assert len({d.day for d in days}) == 7

    end = NOON + timedelta(seconds=10_000)
    whole = await reading.samples(KEY, NOON, end, most=100)
    assert [s.proving for s in whole] == list(range(99, 10_000, 100))
    few = await reading.samples(KEY, NOON, NOON + timedelta(seconds=20), most=100)
    assert [s.proving for s in few] == list(range(20))
    assert await reading.samples(KEY, end, NOON) == ()


async def test_hosts_that_were_measured_or_have_failed_are_remembered(one: Process, reading: PostgresReading) -> None:
    agent = await one.agent()
    async with one.database.transaction() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO hosts (agent_id, machine_id, gpu_name, num_gpus, rates, measured_at, failures, failed_at)"
            " VALUES (%(agent)s, 'good', 'RTX 5090', 1, '[95.0, 96]', now(), 0, NULL),"
            " (%(agent)s, 'bad', 'RTX 5090', 1, '[]', NULL, 2, now() - interval '1 h'),"
            " (%(agent)s, 'unknown', 'RTX 5090', 1, '[]', NULL, 0, NULL)",
            {"agent": agent.id},
        )

    found = await reading.hosts(KEY)

    assert [(h.host_id, h.rates, h.failures) for h in found] == [("good", (95.0, 96.0), 0), ("bad", (), 2)]


async def test_a_session_is_exported_from_its_beginning_and_only_to_who_asks_for_its_own_agent(
    one: Process, reading: PostgresReading
) -> None:
    run = await one.start()
    await one.conversation.append(run, [Message(run.run_id, Kind.NUDGE, "user", f"{n}") for n in range(450)])
    await one.agents.meet(OTHER, "uid-2", floor=0, handled={})

    exported = [m async for m in reading.export(KEY, run.session_id)]

    assert [m.content for m in exported] == [f"{n}" for n in range(450)]
    assert [m async for m in reading.export(OTHER, run.session_id)] == []
    assert (await reading.conversation(OTHER, run.session_id)).items == ()
    assert await reading.session(OTHER, run.session_id) is None
    assert await reading.compactions(OTHER, run.session_id) == ()
    assert await reading.run(OTHER, run.run_id) is None


async def test_of_an_agent_that_nobody_knows_there_is_nothing(one: Process, reading: PostgresReading) -> None:
    await a_refusing_run(one)
    elsewhere = PostgresReading(one.database, cluster="another")

    for reader, key in ((reading, NOBODY), (elsewhere, KEY)):
        assert await reader.agent(key) is None
        assert await reader.run(key, 1) is None
        assert await reader.session(key) is None
        for page in (reader.runs, reader.sessions, reader.conversation, reader.actions, reader.wakes, reader.alerts):
            assert await page(key) == Page(items=())
        assert (await reader.machines(key, ended=True)).items == ()
        for read in (reader.hosts, reader.spend, reader.compactions):
            assert await read(key) == ()
        assert await reader.samples(key, NOON, NOON + MINUTE) == ()
        assert await reader.versions((key,)) == {}
    assert await elsewhere.namespaces() == ()


async def test_a_deleted_agent_is_listed_only_when_asked_for(one: Process, reading: PostgresReading) -> None:
    await one.agents.forget(await one.lease(), "uid-1")

    assert await reading.agents(("prod",)) == await reading.agents((), deleted=True) == ()
    (deleted,) = await reading.agents(("prod",), deleted=True)
    assert deleted.deleted_at is not None
    assert await reading.namespaces() == ()


async def test_a_version_changes_with_each_thing_that_is_shown(reading: PostgresReading, one: Process) -> None:
    versions = [(await reading.versions((KEY,))).get(KEY)]

    async def changed() -> bool:
        versions.append((await reading.versions((KEY, NOBODY))).get(KEY))
        return versions[-1] != versions[-2]

    agent = await one.agent()
    assert await changed()
    assert not await changed()
    run = await one.start()
    assert await changed()
    await one.say(run, "facts")
    assert await changed()
    machine = await launched(one, run)
    assert await changed()
    await seen(one, run, machine, NOON + MINUTE, phase=Phase.LOADING)
    assert await changed()
    await one.runs.raise_alert(agent.id, run.run_id, "Code", "warning", "look")
    assert await changed()
    await one.runs.acknowledge(agent.id, 1, "known", "alert-1: known")
    assert await changed()
    await one.runs.ask_wake(run, NOON + 9 * MINUTE, "look", limit=5)
    assert await changed()
    await one.conclude(run)
    assert await changed()
    assert not await changed()


async def test_a_read_that_takes_too_long_ends_on_the_server_too(one: Process, database_url: str) -> None:
    await one.agent()
    engine = open_engine(database_url, 2)
    reading = PostgresReading(Database(engine, longest_seconds=0.5), cluster="test")
    async with one.database.transaction() as connection:
        await connection.exec_driver_sql("LOCK TABLE agents IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TryLater):
            await reading.agent(KEY)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'agents'::regclass"
        assert (await connection.exec_driver_sql(waiting)).scalar_one() == 0
    assert await reading.agent(KEY) is not None
    await engine.dispose()
