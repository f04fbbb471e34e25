"""The conversation in Postgres: append-only, fenced, and nothing that a model said can break it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from fleetagent.domain.messages import Kind, Message
from support.conversation_contract import COST, ConversationContract, Side, compact, said
from support.hands import RealHands
from support.stores import NOON, Process, a_process


@pytest.fixture
async def one(database_url: str) -> AsyncIterator[Process]:
    async with a_process(database_url, lease=timedelta(seconds=60)) as process:
        yield process


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
