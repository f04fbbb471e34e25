"""The conversation in Postgres: append-only, fenced, and nothing that a model said can break it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.window import Calibration
from fleetagent.errors import LeaseLost
from support.conversation_contract import COST, ConversationContract, Side, compact, said
from support.hands import RealHands
from support.stores import NOON, Process, a_process


class TestPostgres(ConversationContract):
    @pytest.fixture
    async def side(self, one: Process, database_url: str) -> AsyncIterator[Side]:
        async with a_process(database_url, "two") as other:
            await one.agent()
            yield Side(one.conversation, RealHands(one, other))


async def test_a_compaction_leaves_a_row_that_tells_what_it_did(one: Process) -> None:
    run = await one.start()
    hands = RealHands(one, one)

    await compact(
        Side(one.conversation, hands), run, method="Digest", because="it was empty", runs_left=[1, 2], summary="Fleet"
    )

    row = (await one.rows("SELECT * FROM compactions"))[0]
    assert (row["method"], row["because"], row["runs_left"]) == ("Digest", "it was empty", [1, 2])
    assert (row["tokens_before"], row["tokens_after"], row["summary"]) == (900, 300, "Fleet")


async def test_a_conclusion_books_nothing_once_more(one: Process) -> None:
    run = await one.start()
    await one.conversation.book(run, COST)

    await one.conclude(run, tokens_in=COST.tokens_in, tokens_out=COST.tokens_out, usd=COST.usd)

    assert await RealHands(one, one).booked(run) == replace(COST, tokens_cached=0)


async def test_an_interrupted_run_has_paid_too(one: Process) -> None:
    run = await one.start()
    await one.conversation.book(run, COST)

    await one.runs.interrupt(run, "cancelled")

    assert await RealHands(one, one).booked(run) == COST
    assert (await one.ledger.pulse(run.agent_id, 0, NOON)).model_tokens_today == 1_050


async def test_people_are_told_how_many_of_their_words_a_compaction_dropped(one: Process) -> None:
    run = await one.start()
    await one.conversation.append(run, [said(run, f"words {n}", Kind.FEEDBACK) for n in range(3)])

    await compact(Side(one.conversation, RealHands(one, one)), run, leaving_seqs=[1, 2])

    assert (await one.agent()).session.feedback_dropped == 2


async def test_a_megabyte_and_every_script_come_back_as_they_were(one: Process) -> None:
    run = await one.start()
    text = "ü漢字🤖\u202e" * 40_000

    await one.conversation.append(run, [Message(run.run_id, Kind.OBSERVATION, "user", text)])

    assert (await one.conversation.in_prompt(run.session_id))[0].content == text


@pytest.mark.parametrize("what", ["booked", "counted"])
async def test_what_waits_for_the_row_while_another_process_takes_it_over_writes_nothing(
    one: Process, what: str
) -> None:
    run = await one.start()
    counts = Counts("late", "v")
    write = (
        one.conversation.book(run, COST)
        if what == "booked"
        else one.conversation.count(run, reported=7, estimated=7, counts=counts, calibration=Calibration())
    )
    async with one.database.transaction() as takeover:
        await takeover.execute(sa.text("UPDATE agents SET lease_token = lease_token + 1"))
        late = asyncio.create_task(write)
        await _somebody_waits(one)

    with pytest.raises(LeaseLost):
        await late
    assert await one.rows("SELECT * FROM spend") == []
    assert [row["tokens_in"] for row in await one.rows("SELECT tokens_in FROM runs")] == [0]
    assert [row["context_tokens"] for row in await one.rows("SELECT context_tokens FROM sessions")] == [None]
    assert "late" not in (await one.agent()).calibration


async def _somebody_waits(one: Process) -> None:
    query = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(10):
        while (await one.rows(query))[0]["n"] == 0:  # noqa: ASYNC110  # another process, in truth
            await asyncio.sleep(0.01)
