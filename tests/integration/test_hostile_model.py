"""Whatever a model says and a market does: no limit is passed at the market, and in the end the ledger equals it.

A sample; `make nightly` makes a million calls of the same kind.
"""

import asyncio
import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from support.hostile.caller import a_story
from support.hostile.machine import HostileModel
from support.hostile.on_postgres import books_on_postgres

CALLS_A_WORLD = 1_000
SEEDS = range(100, 160)
FEWER = settings(
    max_examples=60,
    stateful_step_count=40,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each wrong call is logged, and there are thousands."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_limit_is_passed_whatever_a_model_calls_and_a_market_does(seed: int) -> None:
    asyncio.run(a_story(seed, CALLS_A_WORLD))


def test_no_sequence_of_calls_and_events_that_can_be_found_passes_a_limit() -> None:
    run_state_machine_as_test(HostileModel, settings=FEWER)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_on_postgres_the_same_calls_get_the_same_answers(seed: int, database_url: str) -> None:
    in_memory = await a_story(seed, 250, cancels=False)

    async with books_on_postgres(database_url) as (books, workers):
        stored = await a_story(seed, 250, books, workers, cancels=False)

    assert stored.answers == in_memory.answers
    assert stored.auditor.launches == in_memory.auditor.launches
