"""Faults that pass by themselves are not seen by the run; what was answered before a failure is paid for."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleetagent.domain.records import Outcome
from support.on_postgres import OnPostgres, on_postgres
from support.servers import Model, a_model
from support.stores import a_process

HELD = Outcome.HELD


@pytest.fixture(scope="module")
def server() -> Any:
    with a_model() as running:
        yield running


@pytest.fixture
async def on(database_url: str, server: Model) -> AsyncIterator[OnPostgres]:
    async with a_process(database_url) as process, on_postgres(process, server) as ready:
        yield ready


@pytest.mark.parametrize("name", ["A14", "A18", "A19/502", "A20", "A38", "A38/error"])
async def test_what_passes_by_itself_is_not_even_seen_by_the_run(on: OnPostgres, server: Model, name: str) -> None:
    server.put("faults", {"name": name, "times": 1})

    ended = await on.run()

    assert (ended.outcome, ended.error) == (HELD, None)
    assert server.get("state")["faults"] == []


async def test_a_failed_run_has_paid_for_the_answers_that_it_got(on: OnPostgres, server: Model) -> None:
    on.spec = {"model": {"usdPerMillionTokens": {"input": "1.00", "output": "2.00"}}}
    server.put("script", [{"calls": [{"name": "get_fleet"}]}, *[{"status": 401, "body": "no"}] * 3])

    ended = await on.run()
    server.put("script", [])

    row = await on.last()
    assert (ended.outcome, row["model_calls"]) == (Outcome.FAILED, 2)
    assert row["tokens_in"] > 1_000
    assert row["usd"] == await on.spent() > 0
