"""What each look at the ledger tells of open alerts and of actions that wait for somebody."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.tables import actions
from support.stores import NOON, Process, a_process


@pytest.fixture
async def one(database_url: str) -> AsyncIterator[Process]:
    async with a_process(database_url) as process:
        yield process


async def test_the_newest_open_alerts_come_with_their_words_and_all_are_counted(one: Process) -> None:
    agent = await one.agent()
    assert (await one.ledger.pulse(agent.id, 0, NOON)).alerts == ()
    for n in range(7):
        await one.runs.raise_alert(agent.id, 1, "Model", "warning", f"host {n} fails")
    await one.runs.acknowledge(agent.id, 7, "known", "alert-7: known")

    pulse = await one.ledger.pulse(agent.id, 0, NOON)

    assert pulse.open_alerts == 6
    assert [(a.severity, a.message) for a in pulse.alerts] == [("warning", f"host {n} fails") for n in (5, 4, 3, 2, 1)]


async def waits(one: Process, **changes: Any) -> int:
    """One action that waits for approval; how many the pulse tells of then."""
    run = await one.start()
    usual = {
        "agent_id": run.agent_id,
        "run_id": run.run_id,
        "intent_key": f"{run.run_id}",
        "kind": "launch",
        "by": "model",
        "args": {},
        "state": "waiting",
        "created_at": NOON,
    }
    async with one.database.transaction() as connection:
        await connection.execute(sa.insert(actions).values({**usual, **changes}))
    return (await one.ledger.pulse(run.agent_id, 0, NOON + timedelta(minutes=5))).waiting


async def test_an_action_that_waits_for_approval_is_told_until_it_can_wait_no_longer(one: Process) -> None:
    assert await waits(one) == 1
    assert await waits(one, state="refused") == 1
    assert await waits(one, created_at=NOON - timedelta(days=2)) == 1
