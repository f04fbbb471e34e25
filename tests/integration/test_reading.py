"""What page and API read: all that stands, of the right agent, in pages that neither repeat nor miss a row."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

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
from fleetagent.errors import BadCursor, TryLater
from fleetagent.ports.reading import EVERYTHING, Slice
from support.ledger import an_intent, launched, seen
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
