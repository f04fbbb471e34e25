"""Processes at the database of a test."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from support.stores import Process, a_process

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
