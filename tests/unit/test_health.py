"""The two probes: what they answer, and what the log says of it."""

import logging
from collections.abc import AsyncIterator

import httpx
import pytest

from fleetagent.entrypoints.health import health_app
from fleetagent.entrypoints.signs import Signs
from fleetagent.errors import TryLater


class Process:
    """What the probes ask."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.database: str | None = None
        self.signs = Signs((), 600, clock=lambda: self.seconds)
        self.signs.begin()

    async def memory_answers(self) -> None:
        if self.database is not None:
            raise TryLater(self.database)


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
async def http(process: Process) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(health_app(process.signs, process.memory_answers))
    async with httpx.AsyncClient(transport=transport, base_url="http://probe") as client:
        yield client


async def test_a_database_that_is_away_makes_it_not_ready_and_never_not_alive(
    process: Process, http: httpx.AsyncClient
) -> None:
    process.database = "database: connection refused"

    assert (await http.get("/healthz")).text == "alive\n"
    answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert answer.text == "the watch of all namespaces is not open\ndatabase: connection refused\n"


async def test_what_is_silent_is_named_to_the_probe_and_once_in_the_log(
    process: Process, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    process.seconds = 601

    for _ in range(3):
        answer = await http.get("/healthz")
        assert (answer.status_code, answer.text) == (503, "the watch of all namespaces was not heard for 601 s\n")
    process.signs.silent_seconds = 700
    assert (await http.get("/healthz")).status_code == 200

    said = [record.message for record in caplog.records if record.name.endswith("health")]
    assert said == ["not alive: the watch of all namespaces was not heard for 601 s", "alive again"]
