"""What comes due while nobody watches, and clocks that jump: one run, in its turn, and the beat goes on."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

import pytest

from fleetagent.domain.resource import FleetAgentSpec
from fleetagent.domain.schedule import spread
from support.engine import UID, Engine, MovedClock, StoredCluster, a_body, an_engine
from support.servers import Market, Model, a_market, a_model

INTERVAL = timedelta(minutes=10)


@pytest.fixture
def market() -> Iterator[Market]:
    with a_market() as running:
        yield running


@pytest.fixture
def model() -> Iterator[Model]:
    with a_model() as running:
        yield running


class Scene:
    """One agent whom one process after the other keeps, by one clock."""

    def __init__(self, url: str, market: Market, model: Model) -> None:
        spec = {"schedule": {"interval": "10m"}, "target": {"proofsPerHour": 0}}
        self.url = url
        self.cluster = StoredCluster(a_body(market.base_url, model.url, spec=spec))
        self.clock = MovedClock()
        self.moved = spread(FleetAgentSpec.read(self.cluster.body["spec"]).schedule, UID)

    def process(self, owner: str) -> AbstractAsyncContextManager[Engine]:
        """A process that looks at the agent."""
        return an_engine(self.url, self.cluster, clock=self.clock, owner=owner)

    @property
    def last_run(self) -> int:
        """Its number."""
        return int(self.cluster.status["lastRunID"])

    @property
    def next_run_at(self) -> datetime:
        """As people read it."""
        return datetime.fromisoformat(self.cluster.status["nextRunAt"])


@pytest.fixture
async def scene(database_url: str, market: Market, model: Model) -> Scene:
    ready = Scene(database_url, market, model)
    async with ready.process("one") as engine:
        await engine.beat()
    assert ready.last_run == 1
    return ready


async def test_after_an_outage_a_run_waits_for_its_turn_and_says_when_that_is(scene: Scene) -> None:
    assert scene.moved > timedelta(seconds=2), "the test shows nothing otherwise"
    planned = scene.next_run_at
    scene.clock.advance(hours=5)

    async with scene.process("two") as engine:
        scene.clock.stand_still()
        began = scene.clock.now()
        await engine.beat()
        assert scene.last_run == 1
        assert abs(scene.next_run_at - began - scene.moved) < timedelta(seconds=2)

        await engine.beat(seconds=scene.moved.total_seconds())
        assert scene.last_run == 2
        assert (scene.next_run_at - planned) % INTERVAL == timedelta(0)
        await engine.beat(seconds=(scene.next_run_at - scene.clock.now()).total_seconds() + 1)
        assert scene.last_run == 3


async def test_a_request_does_not_wait_for_that_turn_and_takes_the_missed_run_along(scene: Scene) -> None:
    scene.clock.advance(hours=5)

    async with scene.process("two") as engine:
        await engine.ask("now")
        assert scene.cluster.status["lastRun"]["triggers"] == ["Schedule", "Request"]
        await engine.beat(seconds=31)
        assert scene.last_run == 2


async def test_a_clock_that_was_ahead_and_is_set_right_keeps_no_agent_waiting(scene: Scene) -> None:
    async with scene.process("two") as engine:
        await engine.beat()
        await engine.beat(hours=30)
        assert scene.last_run == 2
        await engine.beat(hours=-30)
        assert scene.last_run == 2
        assert scene.next_run_at - scene.clock.now() <= INTERVAL

        await engine.beat(minutes=10)
        assert scene.last_run == 3
        await engine.beat(minutes=10)
        assert scene.last_run == 4
