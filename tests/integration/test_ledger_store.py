"""The ledger in Postgres: nothing without an intent, nothing without the lease, nothing billed twice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.ledger import SETTLED_TOGETHER
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Instance, MarketStatus, Phase
from fleetagent.domain.records import Asked, Run
from fleetagent.domain.settle import Change, Doomed
from fleetagent.domain.settlement import NEVER_APPEARED
from fleetagent.errors import LeaseLost, NotStorable
from support.fleets import an_instance, as_listed
from support.ledger import an_intent, launched, seen
from support.stores import NOON, Process, a_process

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def run(one: Process) -> Run:
    return await one.start()


async def states(process: Process) -> list[str]:
    return [row["state"] for row in await process.rows("SELECT state FROM actions ORDER BY id")]


async def test_an_intent_is_a_machine_from_the_moment_it_is_written(one: Process, run: Run) -> None:
    await one.ledger.intend_launch(run, an_intent(), NOON)

    (machine,) = await one.ledger.instances(run.agent_id)
    assert (machine.phase, machine.is_unknown, machine.usd_per_hour) == (Phase.REQUESTED, True, Decimal("0.60"))
    pulse = await one.ledger.pulse(run.agent_id, run.run_id, NOON)
    assert (pulse.launches_this_run, pulse.launches_last_hour) == (1, 1)


async def test_an_intent_can_be_written_once(one: Process, run: Run) -> None:
    await one.ledger.intend_launch(run, an_intent(1), NOON)

    with pytest.raises(NotStorable):
        await one.ledger.intend_launch(run, an_intent(2, asked=an_intent(1).asked), NOON)
    with pytest.raises(NotStorable):
        await one.ledger.intend_launch(run, an_intent(2, label=an_intent(1).label), NOON)

    assert len(await one.ledger.instances(run.agent_id)) == 1


async def test_notes_of_a_run_tell_what_it_did_and_what_was_refused(one: Process, run: Run) -> None:
    await launched(one, run)
    refusal = Refusal("OnTarget", "hold")
    await one.ledger.refuse(run, Asked("launch", "refused", "model", {}), refusal)
    await one.conclude(run)

    (note,) = await one.conversation.notes(run.agent_id, [run.run_id])

    assert [(a.kind, a.state, a.provider_ref, a.refusal_code) for a in note.actions] == [
        ("launch", "done", "9001", None),
        ("launch", "refused", None, "OnTarget"),
    ]


async def test_who_lost_the_lease_writes_nothing_more(one: Process, run: Run, database_url: str) -> None:
    machine = await launched(one, run)
    await one.agents.release(run.lease)
    async with a_process(database_url, "two") as two:
        await two.lease()
        before = await one.rows("SELECT * FROM actions"), await one.rows("SELECT * FROM instances")

        refusal = Refusal("OnTarget", "enough")
        for write in (
            one.ledger.intend_launch(run, an_intent(2), NOON),
            one.ledger.refuse(run, Asked("launch", "k", "model", {}), refusal),
            one.ledger.launched(run.lease, 1, "9009"),
            one.ledger.not_launched(run.lease, 1, "no", NOON),
            one.ledger.unclear(run.lease, 1, "perhaps", None),
            one.ledger.intend_stop(run.lease, 1, machine, intent_key="s", by="model", reason="", now=NOON),
            one.ledger.stop_asked(run.lease, machine.label, NOON),
            one.ledger.settle(run.lease, [Change(replace(machine, phase=Phase.GONE))], NOON),
            one.ledger.settle(run.lease, [], NOON, [Doomed(machine, "broken", host_failed=True)]),
        ):
            with pytest.raises(LeaseLost):
                await write

        assert (await one.rows("SELECT * FROM actions"), await one.rows("SELECT * FROM instances")) == before
        assert await one.rows("SELECT * FROM hosts") == []


async def test_after_a_reset_no_new_effect_begins_but_one_that_has_begun_is_recorded(one: Process, run: Run) -> None:
    action = await one.ledger.intend_launch(run, an_intent(), NOON)
    await one.agents.start_session(run.lease, {})

    with pytest.raises(LeaseLost, match="reset"):
        await one.ledger.intend_launch(run, an_intent(2), NOON)
    await one.ledger.launched(run.lease, action, "9001")

    assert await states(one) == ["done"]


async def test_a_doubt_is_settled_by_what_the_list_shows(one: Process, run: Run) -> None:
    for number in (1, 2, 3):
        await one.ledger.intend_launch(run, an_intent(number), NOON)
    await one.ledger.unclear(run.lease, 1, "no answer", None)
    await one.ledger.unclear(run.lease, 2, "an error that names a machine", "9002")
    found, named, lost = await one.ledger.instances(run.agent_id)

    await seen(one, run, found, NOON + MINUTE, provider_id="9001", phase=Phase.LOADING)
    await seen(one, run, named, NOON + MINUTE, absent_count=1, absent_since=NOON)
    assert await states(one) == ["done", "unknown", "intended"]

    gone = replace(lost, phase=Phase.FAILED, failure="never appeared")
    await one.ledger.settle(run.lease, [Change(gone, never_appeared=True)], NOON + 2 * MINUTE)
    assert await states(one) == ["done", "unknown", "failed"]
    assert [i.label for i in await one.ledger.instances(run.agent_id)] == [found.label, named.label]


async def test_a_look_overwrites_neither_a_workers_news_nor_a_stop_that_came_meanwhile(one: Process, run: Run) -> None:
    first, second = await launched(one, run, 1), await launched(one, run, 2)
    async with one.database.transaction() as connection:
        await connection.execute(
            sa.text("UPDATE instances SET phase = 'benchmarking', failure = 'weak' WHERE provider_id = '9001'")
        )
    await one.ledger.intend_stop(run.lease, 1, second, intent_key="s", by="model", reason="", now=NOON)

    running = {"phase": Phase.LOADING, "market_status": MarketStatus.RUNNING}
    await seen(one, run, first, NOON + MINUTE, **running)
    await seen(one, run, second, NOON + MINUTE, **running)

    machines = await one.ledger.instances(run.agent_id)
    assert [(m.phase, m.failure) for m in machines] == [(Phase.BENCHMARKING, "weak"), (Phase.STOPPING, None)]


async def adopt(process: Process, run: Run, instance: Instance, at: datetime, **listed: Any) -> Instance:
    """Settle a look that found a machine which is not live in the ledger."""
    new = replace(instance, phase=Phase.LOADING, market_status=MarketStatus.RUNNING)
    await process.ledger.settle(run.lease, [Change(new, "news", adopted=as_listed(new, **listed))], at)
    return next(i for i in await process.ledger.instances(run.agent_id) if i.label == instance.label)


async def test_a_machine_that_turns_up_late_is_adopted_as_what_it_was(one: Process, run: Run) -> None:
    doomed, proved, never = [await launched(one, run, n) for n in (1, 2, 3)]
    await one.ledger.intend_stop(run.lease, 1, doomed, intent_key="s", by="lifecycle", reason="stuck", now=NOON)
    await one.ledger.stop_asked(run.lease, doomed.label, NOON)
    async with one.database.transaction() as connection:
        await connection.execute(sa.text("UPDATE instances SET measured_rate = 80 WHERE provider_id = '9002'"))
    await seen(one, run, doomed, NOON, phase=Phase.GONE)
    await seen(one, run, proved, NOON, phase=Phase.FAILED, failure="lost")
    given_up = replace(never, phase=Phase.FAILED, failure="never appeared")
    await one.ledger.settle(run.lease, [Change(given_up, never_appeared=True)], NOON)
    assert await one.ledger.instances(run.agent_id) == ()

    late = NOON + 10 * MINUTE
    back = [await adopt(one, run, machine, late) for machine in (doomed, proved, never)]

    assert [m.phase for m in back] == [Phase.STOPPING, Phase.PROVING, Phase.LOADING]
    assert [m.failure for m in back] == ["stuck", None, None]
    assert await states(one) == ["done", "done", "done", "done"]


async def test_an_unknown_machine_brings_its_workers_secret_along(one: Process, run: Run) -> None:
    url = "https://fleet.example/workers/abcdefghijklmnopqrstuvwxyz012345"
    stray = replace(await launched(one, run), label="fa/0123456789ab/stray", provider_id="9555")

    await adopt(one, run, stray, NOON, worker_url=url)

    (row,) = await one.rows("SELECT * FROM instances WHERE provider_id = '9555'")
    assert row["worker_token_hash"] is not None
    assert row["action_id"] is None


async def test_time_is_billed_once_and_each_utc_day_gets_its_share(one: Process, run: Run) -> None:
    evening = datetime(2026, 11, 29, 23, 30, tzinfo=UTC)
    machine = await launched(one, run, at=evening)

    for minutes in (10, 20, 90):
        await seen(one, run, machine, evening + timedelta(minutes=minutes), phase=Phase.LOADING)
    pulse = await one.ledger.pulse(run.agent_id, run.run_id, evening + timedelta(minutes=100))
    await seen(one, run, machine, evening + timedelta(minutes=120), phase=Phase.GONE)
    await one.ledger.settle(run.lease, [], evening + timedelta(minutes=500))

    days = {str(r["day"]): r["usd"] for r in await one.rows("SELECT day, usd FROM spend WHERE kind = 'fleet'")}
    assert days == {"2026-11-29": Decimal("0.30"), "2026-11-30": Decimal("0.90")}
    assert pulse.usd_spent_today == pytest.approx(Decimal("0.70"))


async def test_a_day_of_the_bill_is_a_utc_day_whatever_zone_the_database_lives_in(database_url: str) -> None:
    name = database_url.rpartition("/")[2]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET timezone = 'Europe/Berlin'")
    before_summer_time = datetime(2026, 3, 28, 22, 0, tzinfo=UTC)  # its clocks go forward at 01:00 UTC on the 29th

    async with a_process(database_url) as process:
        run = await process.start()
        await launched(process, run, at=before_summer_time)
        await process.ledger.settle(run.lease, [], before_summer_time + timedelta(hours=49))

        days = {str(r["day"]): r["usd"] for r in await process.rows("SELECT day, usd FROM spend")}
    assert days == {"2026-03-28": Decimal("1.2"), "2026-03-29": Decimal("14.4"), "2026-03-30": Decimal("13.8")}


async def test_what_never_existed_costs_nothing_in_the_end(one: Process, run: Run) -> None:
    await one.ledger.intend_launch(run, an_intent(), NOON)
    (intent,) = await one.ledger.instances(run.agent_id)

    await one.ledger.settle(run.lease, [], NOON + 30 * MINUTE)
    meanwhile = await one.ledger.pulse(run.agent_id, run.run_id, NOON + 30 * MINUTE)
    lost = Change(replace(intent, phase=Phase.FAILED), never_appeared=True)
    await one.ledger.settle(run.lease, [lost], NOON + 60 * MINUTE)
    finally_ = await one.ledger.pulse(run.agent_id, run.run_id, NOON + 60 * MINUTE)

    assert (meanwhile.usd_spent_today, finally_.usd_spent_today) == (Decimal("0.30"), Decimal(0))


async def test_a_host_is_left_out_for_longer_each_time_and_at_most_a_week(one: Process, run: Run) -> None:
    machine = await launched(one, run)
    hours = []
    for _ in range(12):
        await one.ledger.settle(run.lease, [], NOON, [Doomed(machine, "broken", host_failed=True)])
        (row,) = await one.rows("SELECT * FROM hosts")
        hours.append((row["excluded_until"] - NOON) / timedelta(hours=1))

    assert hours[:4] == [1, 2, 4, 8]
    assert hours[-1] == 7 * 24
    pulse = await one.ledger.pulse(run.agent_id, 1, NOON)
    assert set(pulse.hosts_excluded) == {machine.machine_id}
    assert not (await one.ledger.pulse(run.agent_id, 1, NOON + timedelta(days=8))).hosts_excluded


async def test_a_host_that_failed_is_forgiven_as_time_passes_without_a_failure(one: Process, run: Run) -> None:
    machine = await launched(one, run)
    hours = []
    for at in (NOON, NOON + MINUTE, NOON + timedelta(days=7)):  # a week forgives two
        await one.ledger.settle(run.lease, [], at, [Doomed(machine, "broken", host_failed=True)])
        (row,) = await one.rows("SELECT * FROM hosts")
        hours.append((row["excluded_until"] - at) / timedelta(hours=1))

    assert hours == [1, 2, 1]


async def test_an_offer_that_was_gone_is_left_alone_for_a_while(one: Process, run: Run) -> None:
    for number, because in enumerate(["OfferGone: no_such_ask", "OrderRefused: too long"], start=1):
        action = await one.ledger.intend_launch(run, an_intent(number), NOON)
        await one.ledger.not_launched(run.lease, action, because, NOON)

    soon = await one.ledger.pulse(run.agent_id, run.run_id, NOON + MINUTE)
    later = await one.ledger.pulse(run.agent_id, run.run_id, NOON + timedelta(hours=1))

    assert (set(soon.offers_denied), set(later.offers_denied)) == ({"7001"}, set())
    assert soon.launches_this_run == 0


async def test_the_account_is_remembered_from_the_first_look_until_somebody_decides_otherwise(one: Process) -> None:
    lease = await one.lease()

    await one.agents.remember_account(lease, "1", instead_of=None)
    await one.agents.remember_account(lease, "2", instead_of=None)
    assert (await one.agent()).account_id == "1"
    await one.agents.remember_account(lease, "2", instead_of="1")
    assert (await one.agent()).account_id == "2"


async def test_an_alert_of_ours_that_was_acknowledged_is_not_raised_again_before_it_was_over(one: Process) -> None:
    agent_id = (await one.agent()).id
    alert = ("FleetUnknown", "warning", "the list cannot be read")

    first = await one.runs.raise_alert(agent_id, 0, *alert)
    assert first is not None
    await one.runs.acknowledge(agent_id, first, "known outage", "value")
    assert await one.runs.raise_alert(agent_id, 0, *alert) is None

    await one.runs.resolve_alerts(agent_id, "FleetUnknown")
    assert await one.runs.raise_alert(agent_id, 0, *alert) is not None
    assert [r["state"] for r in await one.rows("SELECT state FROM alerts ORDER BY id")] == ["resolved", "open"]


def found(number: int, **changes: Any) -> Change:
    """A machine that carries our label and that the ledger lacks."""
    machine = an_instance(f"5{number:04}", Phase.LOADING, **changes)
    return Change(machine, f"machine {machine.provider_id}: adopted", adopted=as_listed(machine))


async def test_a_lost_fleet_is_written_bit_by_bit_and_each_try_goes_on_from_there(one: Process, run: Run) -> None:
    """In one transaction 500 machines pass the database's time limit, again and again."""
    many = [found(n) for n in range(2 * SETTLED_TOGETHER + 1)]
    doomed = [Doomed(change.instance, "there is no room", host_failed=False) for change in many[1:]]
    broken = [*many[:-1], found(2 * SETTLED_TOGETHER, gpu_name="RTX\0")]

    with pytest.raises(NotStorable):
        await one.ledger.settle(run.lease, broken, NOON, doomed)
    written = await one.ledger.instances(run.agent_id)
    assert [i.phase for i in written] == [Phase.LOADING, *[Phase.STOPPING] * (2 * SETTLED_TOGETHER - 1)]

    await one.ledger.settle(run.lease, many[-1:], NOON, doomed[-1:])
    assert len(await one.ledger.instances(run.agent_id)) == 2 * SETTLED_TOGETHER + 1
    assert len(await states(one)) == 2 * SETTLED_TOGETHER


async def test_what_must_end_and_has_not_changed_is_ended_as_well(one: Process, run: Run) -> None:
    machines = [await launched(one, run, n) for n in (1, 2)]

    doomed = [Doomed(machine, "longer than 15 min in phase requested", host_failed=True) for machine in machines]
    await one.ledger.settle(run.lease, [Change(machines[1])], NOON, doomed)

    assert [i.phase for i in await one.ledger.instances(run.agent_id)] == [Phase.STOPPING] * 2


async def test_an_offer_of_which_no_machine_came_is_left_alone_for_a_while(one: Process, run: Run) -> None:
    await one.ledger.intend_launch(run, an_intent(), NOON)
    (intent,) = await one.ledger.instances(run.agent_id)
    given_up = replace(intent, phase=Phase.FAILED, failure=NEVER_APPEARED)
    await one.ledger.settle(run.lease, [Change(given_up, never_appeared=True)], NOON + 5 * MINUTE)

    soon = await one.ledger.pulse(run.agent_id, run.run_id, NOON + 6 * MINUTE)
    later = await one.ledger.pulse(run.agent_id, run.run_id, NOON + timedelta(hours=1))

    assert (set(soon.offers_denied), set(later.offers_denied)) == ({"7001"}, set())
