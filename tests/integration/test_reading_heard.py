"""Whether the operator has heard a word: from the moment on at which it is written down, and for good."""

import pytest

from fleetagent.adapters.postgres.reading import PostgresReading
from fleetagent.domain.records import AgentKey
from fleetagent.domain.said import value_of
from fleetagent.domain.schedule import Trigger
from support.stores import KEY, Process


@pytest.fixture
def reading(one: Process) -> PostgresReading:
    return PostgresReading(one.database, cluster="test")


async def test_a_word_is_heard_once_it_is_written_down_while_a_run_has_it_and_after(
    one: Process, reading: PostgresReading
) -> None:
    value = value_of("message", "prefer hosts in the EU")
    agent = await one.agent()
    seen = [await reading.heard(KEY, "message", value)]
    await one.runs.persist(agent.id, Trigger.FEEDBACK, f"message:{value}", "prefer hosts in the EU")
    seen.append(await reading.heard(KEY, "message", value))
    run = await one.start()
    seen.append(await reading.heard(KEY, "message", value))
    await one.conclude(run)
    seen.append(await reading.heard(KEY, "message", value))

    assert seen == [False, True, True, True]


async def test_only_this_word_of_this_agent_is_heard(one: Process, reading: PostgresReading) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, Trigger.FEEDBACK, "acknowledge:alert-1", "alert-1")

    assert await reading.heard(KEY, "acknowledge", "alert-1")
    assert not await reading.heard(KEY, "acknowledge", "alert-2")
    assert not await reading.heard(KEY, "message", "alert-1")
    assert not await reading.heard(AgentKey("prod", "nobody"), "acknowledge", "alert-1")
