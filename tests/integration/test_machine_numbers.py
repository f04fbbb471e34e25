"""Aliases of machines in Postgres: each number is given once, whatever becomes of the machine and its row."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from fleetagent.domain.fleet import Instance, Phase
from fleetagent.domain.records import Run
from fleetagent.domain.settle import Change
from support.fleets import an_instance, as_listed
from support.ledger import launched
from support.stores import NOON, Process


@pytest.fixture
async def run(one: Process) -> Run:
    return await one.start()


async def adopted(process: Process, run: Run, provider_id: str) -> Instance:
    """A machine that a look found by its label alone."""
    new = an_instance(provider_id, Phase.LOADING)
    await process.ledger.settle(run.lease, [Change(new, "news", adopted=as_listed(new))], NOON)
    return next(i for i in await process.ledger.instances(run.agent_id) if i.provider_id == provider_id)


async def test_machines_are_counted_in_the_order_in_which_the_ledger_knew_them(one: Process, run: Run) -> None:
    found = [await launched(one, run, 1), await adopted(one, run, "7777"), await launched(one, run, 2)]

    assert [i.alias for i in found] == ["m1", "m2", "m3"]


async def test_a_number_is_not_given_again_when_the_row_that_had_it_is_deleted(one: Process, run: Run) -> None:
    await launched(one, run, 1)
    async with one.database.transaction() as connection:
        await connection.execute(sa.text("DELETE FROM instances"))

    assert (await launched(one, run, 2)).alias == "m2"


async def test_a_machine_that_was_given_up_and_turns_up_again_keeps_its_name(one: Process, run: Run) -> None:
    machine = await launched(one, run, 1)
    gone = replace(machine, phase=Phase.FAILED)
    await one.ledger.settle(run.lease, [Change(gone)], NOON + timedelta(minutes=9))
    assert await one.ledger.instances(run.agent_id) == ()

    again = Change(machine, "news", adopted=as_listed(machine))
    await one.ledger.settle(run.lease, [again], NOON + timedelta(minutes=10))

    assert [i.alias for i in await one.ledger.instances(run.agent_id)] == ["m1"]
