"""Thirty-five days in one session: nothing overflows, nothing is refused, nothing grows, and day 1 is not forgotten."""

import asyncio
from collections import Counter

import pytest

from fleetagent.domain.conversation.messages import Kind
from fleetagent.domain.records import Outcome
from support.life import BUDGET_TOKENS, REPLY_TOKENS, Life
from support.months import BEATS_A_DAY, BUSY, SAID_ON_DAY_1

RUNS = 35 * BEATS_A_DAY
RUNS_TO_COMPARE = 1_000  # more than the time from one summary to the next


@pytest.fixture(scope="module")
def life() -> Life:
    """Lived once for all tests of this file."""
    life = Life(BUSY)
    asyncio.run(life.pass_by(RUNS))
    return life


def test_no_request_was_refused_or_would_be_by_the_strictest_server(life: Life) -> None:
    assert life.model.refused == []
    assert max(f.prompt_tokens for f in life.model.asked) <= BUDGET_TOKENS - REPLY_TOKENS


def test_every_run_ended_and_only_those_failed_that_the_model_was_away_for(life: Life) -> None:
    outcomes = life.outcomes

    assert outcomes.total() == RUNS
    assert set(outcomes) == {Outcome.SKIPPED, Outcome.HELD, Outcome.ACTED, Outcome.REFUSED, Outcome.FAILED}
    assert 0.65 <= outcomes[Outcome.SKIPPED] / RUNS <= 0.75
    assert {c.reason for c in life.memory.concluded.values() if c.outcome is Outcome.FAILED} == {"Unavailable"}


def test_room_was_made_in_every_way_and_at_most_once_a_run(life: Life) -> None:
    compactions = life.memory.compactions

    assert {c["method"] for c in compactions} == {"Masked", "Summary", "Digest"}
    assert max(Counter(c["run_id"] for c in compactions).values()) == 1
    assert len(compactions) <= 2 * 35, "rarely: each one costs the server its prefix cache"
    assert life.model.summaries_asked == sum(c["method"] != "Masked" for c in compactions)
    assert len({c["because"] for c in compactions if c["method"] == "Digest"}) > 3, "bad in many ways"


def test_the_last_thousand_runs_were_no_larger_than_the_first(life: Life) -> None:
    first, last = life.requests(1, RUNS_TO_COMPARE), life.requests(RUNS - RUNS_TO_COMPARE + 1, RUNS)

    for figure in ("messages", "chars", "prompt_tokens"):
        largest_first, largest_last = (max(getattr(f, figure) for f in side) for side in (first, last))
        assert largest_last <= 1.25 * largest_first, figure


def test_what_people_said_on_day_1_is_in_the_prompt_on_day_35_word_for_word(life: Life) -> None:
    assert [len(words) for words in SAID_ON_DAY_1] == [500] * 3
    assert [life.model.shows(words) for words in SAID_ON_DAY_1] == [True] * 3
    said = [r.message.content for r in life.memory.rows if r.message.kind is Kind.FEEDBACK]
    assert [said.count(words) for words in SAID_ON_DAY_1] == [1] * 3


def test_requests_begin_with_the_bytes_of_the_one_before(life: Life) -> None:
    shares = [f.share for f in life.model.asked]

    assert sum(shares) / len(shares) >= 0.95


def test_the_audit_has_every_message_of_every_run_that_asked(life: Life) -> None:
    asked = {i for i, c in life.memory.concluded.items() if c.outcome is not Outcome.SKIPPED}

    assert {r.message.run_id for r in life.memory.rows} == asked
    assert [r.message.seq for r in life.memory.rows] == list(range(1, len(life.memory.rows) + 1))
