"""What a request waits for: the statements from the annotation to the question at the model; and those of a pass."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from support.engine import Engine, StoredCluster, a_body, an_engine
from support.servers import Model, a_market, a_model

MOST_UNTIL_ASKED = 8
MOST_OF_A_RUN = 14
MOST_FOR_AN_ANSWER = 6
"""What it cost, what was counted, what was said; a call's fresh facts, and its result."""
BY_THE_CLOCK = "alembic_version", "WITH asked"
"""Whether the tables are those of this version, and the renewal of all leases: asked now and then, whatever happens."""
MOST_AT_REST = 4
MOST_AT_A_START = 8


@pytest.fixture
def model() -> Iterator[Model]:
    with a_model() as server:
        yield server


@pytest.fixture
async def engine(database_url: str, model: Model) -> AsyncIterator[Engine]:
    """An agent without demand and machines, after its first run."""
    with a_market() as market:
        body = a_body(market.base_url, model.url, spec={"demand": {"static": {"active": False}}})
        async with an_engine(database_url, StoredCluster(body), look_seconds=60) as engine:
            await engine.beat()
            await engine.ask("first")
            yield engine


@contextmanager
def round_trips(engine: Engine) -> Iterator[list[str]]:
    """Statements, and what begins and ends transactions of several."""
    made: list[str] = []
    pool = engine.pool.sync_engine

    def statement(_conn: Any, _cursor: Any, text: str, _given: Any, _context: Any, _many: bool) -> None:  # noqa: FBT001
        if not any(word in text for word in BY_THE_CLOCK):
            made.append(" ".join(text.split()))

    def begun_and_ended(connection: sa.Connection) -> None:
        if connection.get_isolation_level() != "AUTOCOMMIT":
            made.append("BEGIN and COMMIT")

    sa.event.listen(pool, "before_cursor_execute", statement)
    sa.event.listen(pool, "commit", begun_and_ended)
    try:
        yield made
    finally:
        sa.event.remove(pool, "before_cursor_execute", statement)
        sa.event.remove(pool, "commit", begun_and_ended)


async def test_few_statements_lie_between_a_request_and_the_model(engine: Engine, model: Model) -> None:
    asked = model.get("state")["requests"]

    with round_trips(engine) as made:
        await engine.ask("second")

    answers = model.get("state")["requests"] - asked
    assert answers >= 1
    first_answer = next(n for n, text in enumerate(made) if "day_booked" in text)
    assert first_answer <= MOST_UNTIL_ASKED, made
    assert len(made) <= MOST_OF_A_RUN + MOST_FOR_AN_ANSWER * answers, made


async def test_a_pass_that_finds_nothing_costs_few(engine: Engine) -> None:
    with round_trips(engine) as made:
        await engine.beat()

    assert len(made) <= MOST_AT_REST, made


async def test_the_first_look_of_a_new_process_costs_few(engine: Engine, database_url: str) -> None:
    async with an_engine(database_url, engine.cluster, look_seconds=60) as successor:
        with round_trips(successor) as made:
            await successor.beat()

    looked = made[: next(n for n, text in enumerate(made) if "INSERT INTO samples" in text) + 1]
    assert len(looked) <= MOST_AT_A_START, looked
    assert made[-1].startswith("UPDATE agents SET lease_owner"), "it lets go"
