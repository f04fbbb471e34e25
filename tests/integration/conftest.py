"""Processes at the database of a test."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from fleetagent.dev.postgres import EmbeddedPostgres
from support.stores import Process, a_process

if TYPE_CHECKING:
    from support.lived_past import Pages

LEASE = timedelta(seconds=60)


@pytest.fixture
async def one(database_url: str) -> AsyncIterator[Process]:
    """The process that most stories are about."""
    async with a_process(database_url, "one", LEASE) as process:
        yield process


@pytest.fixture
async def two(database_url: str) -> AsyncIterator[Process]:
    """Another replica."""
    async with a_process(database_url, "two", LEASE) as process:
        yield process


@pytest.fixture(scope="session")
def lived_url(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    """A database with a past that has everything in it: read it, and do not write."""
    from support.lived_past import a_life  # noqa: PLC0415 - the web stack, for those who need it

    name = f"lived_{secrets.token_hex(5)}"
    url = postgres_server.create_database(name, template=migrated_template)

    async def live() -> None:
        async with a_process(url) as process:
            await a_life(process)

    asyncio.run(live())
    yield url
    postgres_server.drop_database(name)


@pytest.fixture
async def pages(lived_url: str) -> AsyncIterator["Pages"]:
    """Somebody who looks at the pages of that past; the budgets are 80 USD and two million tokens a day."""
    from support.lived_past import pages_of  # noqa: PLC0415

    async with a_process(lived_url) as process:
        budget = {"fleetUsdPerDay": "80.00", "modelTokensPerDay": 2_000_000}
        async with pages_of(process, budget=budget) as looked_at:
            yield looked_at
