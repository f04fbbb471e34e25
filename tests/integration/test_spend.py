"""The day's bill in Postgres: every machine's time once, at the price it had, in the UTC day in which it fell."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetagent.domain.fleet import Instance, MarketStatus, Phase
from fleetagent.domain.records import Run, Spent
from fleetagent.domain.settle import Change
from support.fleets import as_listed
from support.ledger import an_intent, launched, seen
from support.stores import NOON, Process

HOUR = timedelta(hours=1)


@pytest.fixture
async def run(one: Process) -> Run:
    return await one.start()


async def spent(one: Process, run: Run, at: datetime) -> Decimal:
    """What the guardrails are told of today's bill, to the cent."""
    return (await one.ledger.pulse(run.agent_id, run.run_id, at)).usd_spent_today.quantize(Decimal("0.01"))


async def settle(one: Process, run: Run, at: datetime) -> None:
    await one.ledger.settle(run.lease, [], at)


async def found_again(one: Process, run: Run, machine: Instance, at: datetime) -> None:
    """The list shows a machine of ours that is not live in the ledger."""
    new = replace(machine, provider_id="9001", phase=Phase.LOADING, market_status=MarketStatus.RUNNING)
    await one.ledger.settle(run.lease, [Change(new, "news", adopted=as_listed(new))], at)


async def test_a_price_that_changes_in_the_middle_of_the_day_counts_from_then_on(one: Process, run: Run) -> None:
    machine = await launched(one, run)  # for 0.60 USD/h

    await seen(one, run, machine, NOON + HOUR, usd_per_hour=Decimal("0.90"))

    assert await spent(one, run, NOON + HOUR) == Decimal("0.60")
    assert await spent(one, run, NOON + 3 * HOUR) == Decimal("2.40")
    await settle(one, run, NOON + 3 * HOUR)
    assert await spent(one, run, NOON + 3 * HOUR) == Decimal("2.40")


async def test_a_clock_that_is_set_back_bills_nothing_twice(one: Process, run: Run) -> None:
    await launched(one, run)
    await settle(one, run, NOON + 3 * HOUR)

    for hours in (1, 2, 1, 3):
        await settle(one, run, NOON + hours * HOUR)
        assert await spent(one, run, NOON + hours * HOUR) == Decimal("1.80")

    assert await spent(one, run, NOON + 4 * HOUR) == Decimal("2.40")


@pytest.mark.parametrize("settled", [True, False], ids=["booked", "not booked yet"])
async def test_at_midnight_utc_a_new_bill_begins(one: Process, run: Run, settled: bool) -> None:  # noqa: FBT001
    midnight = datetime(2026, 11, 30, tzinfo=UTC)
    await launched(one, run)
    await settle(one, run, midnight - HOUR)
    if settled:
        await settle(one, run, midnight + HOUR)

    assert await spent(one, run, midnight - timedelta(seconds=1)) >= Decimal("6.60")
    assert await spent(one, run, midnight + HOUR) == Decimal("0.60")


async def test_a_launch_that_was_given_up_and_turns_up_costs_from_its_order_on(one: Process, run: Run) -> None:
    await one.ledger.intend_launch(run, an_intent(), NOON)
    (machine,) = await one.ledger.instances(run.agent_id)
    gone = replace(machine, phase=Phase.FAILED, failure="never appeared")
    await one.ledger.settle(run.lease, [Change(gone, never_appeared=True)], NOON + HOUR)
    assert await spent(one, run, NOON + HOUR) == 0

    await found_again(one, run, machine, NOON + 2 * HOUR)

    assert await spent(one, run, NOON + 3 * HOUR) == Decimal("1.80")
    await settle(one, run, NOON + 3 * HOUR)
    assert await spent(one, run, NOON + 3 * HOUR) == Decimal("1.80")


async def test_a_machine_that_was_lost_and_comes_back_has_cost_all_the_while(one: Process, run: Run) -> None:
    machine = await launched(one, run)
    lost = replace(machine, phase=Phase.FAILED, failure="lost")
    await one.ledger.settle(run.lease, [Change(lost)], NOON + HOUR)
    assert await spent(one, run, NOON + 2 * HOUR) == Decimal("0.60")

    await found_again(one, run, machine, NOON + 2 * HOUR)

    assert await spent(one, run, NOON + 3 * HOUR) == Decimal("1.80")


async def test_a_machine_that_the_ledger_never_knew_costs_from_the_moment_it_is_found(one: Process, run: Run) -> None:
    machine = await launched(one, run)
    stranger = replace(machine, label="fa/0123456789ab/unheard", usd_per_hour=Decimal("1.00"))

    await found_again(one, run, stranger, NOON + HOUR)

    assert await spent(one, run, NOON + 2 * HOUR) == Decimal("2.20")


async def test_the_models_tokens_and_their_price_stand_beside_the_fleets_bill(one: Process, run: Run) -> None:
    await launched(one, run)
    await one.conversation.book(run, Spent(model_calls=1, tokens_in=900, tokens_out=100, usd=Decimal("0.25")))
    await one.conversation.book(run, Spent(model_calls=1, tokens_in=500, tokens_out=50, usd=Decimal("0.10")))
    await settle(one, run, NOON + HOUR)

    rows = {r["kind"]: (r["usd"], r["tokens"]) for r in await one.rows("SELECT kind, usd, tokens FROM spend")}

    assert rows["fleet"] == (Decimal("0.60"), 0)
    assert rows["model"] == (Decimal("0.35"), 1550)
