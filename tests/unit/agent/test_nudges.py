"""A keeper rests until something is due, or asked for; what others persist it is told of."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.gate import in_turn
from fleetagent.agent.keeper import Keeper
from fleetagent.agent.triggers import Triggers
from fleetagent.domain.records import AgentKey
from fleetagent.errors import TryLater
from support.manifests import merged

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEY = AgentKey("fleet", "porep")
BODY = {
    "metadata": {"namespace": "fleet", "name": "porep", "uid": "one", "generation": 1, "annotations": {"theirs": "1"}},
    "status": {"lastRunID": 7},
}


class Counted(Keeper):
    """Nothing is ever due; it counts its passes."""

    passes = 0

    async def _try(self) -> datetime | None:
        self.passes += 1
        self._sight.known.written.kept = {"lastRunID": 7}
        return None


def keeping(**more: Any) -> Any:
    hour = timedelta(hours=1)
    return SimpleNamespace(look_every=hour, retry_after=hour, now=lambda: NOON, meter=Metrics(), **more)


async def passed() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def keeper() -> Any:
    kept = Counted(KEY, keeping())
    kept.look(BODY)
    await passed()
    assert kept.passes == 1
    yield kept
    await kept.stop()


async def test_a_resource_that_says_what_it_said_wakes_nobody(keeper: Counted) -> None:
    for _ in range(3):
        keeper.look(merged(BODY, {"metadata": {"resourceVersion": "2", "annotations": {"theirs": "2"}}}))
        await passed()

    assert keeper.passes == 1


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"fleetagent.dev/requested-at": "now"}}},
        {"metadata": {"generation": 2}},
        {"metadata": {"uid": "two"}},
    ],
    ids=["an annotation of ours", "another spec", "another resource"],
)
async def test_whoever_asks_for_something_wakes_the_keeper_once(keeper: Counted, change: Mapping[str, Any]) -> None:
    for _ in range(3):
        keeper.look(merged(BODY, change))
        await passed()

    assert keeper.passes == 2


async def test_a_status_that_somebody_else_wrote_wakes_the_keeper_until_it_is_mended(keeper: Counted) -> None:
    for _ in range(2):
        keeper.look(merged(BODY, {"status": {"lastRunID": 3}}))
        await passed()
    assert keeper.passes == 3

    keeper.look(BODY)
    await passed()
    assert keeper.passes == 3


class Planned(Counted):
    """Something is due an hour after each pass."""

    async def _try(self) -> datetime | None:
        await super()._try()
        return self._k.now() + timedelta(hours=1)


async def test_a_clock_that_jumps_over_the_end_of_a_rest_wakes_the_keeper_at_the_next_beat() -> None:
    clock = [NOON]
    its = SimpleNamespace(look_every=timedelta(hours=1), now=lambda: clock[-1], meter=Metrics())
    kept = Planned(KEY, its)  # type: ignore[arg-type]
    for hours, passes in ((0, 1), (0.9, 1), (1.1, 2), (2, 2), (2.2, 3)):
        clock.append(NOON + timedelta(hours=hours))
        kept.look(BODY)
        await passed()
        assert kept.passes == passes

    await kept.stop()


class Database:
    """What waits, as each question finds it; it cannot be reached where it is an error."""

    def __init__(self, *found: frozenset[tuple[AgentKey, str]] | TryLater) -> None:
        self.found = list(found)
        self.asked = asyncio.Event()

    async def waiting(self) -> frozenset[tuple[AgentKey, str]]:
        if not self.found:
            self.asked.set()
            await asyncio.Event().wait()
        now = self.found.pop(0)
        if isinstance(now, TryLater):
            raise now
        return now


async def test_an_agent_hears_once_of_each_thing_that_others_persisted() -> None:
    one, both = frozenset({(KEY, "trigger 1")}), frozenset({(KEY, "trigger 1"), (KEY, "trigger 2")})
    database = Database(frozenset(), one, one, TryLater("away"), one, both, frozenset())
    triggers = Triggers(keeping(agents=database, listen_every=timedelta(0)), None)  # type: ignore[arg-type]
    keeper = triggers._keepers[KEY] = Counted(KEY, keeping())
    nudges: list[None] = []
    keeper.nudge = lambda: nudges.append(None)  # type: ignore[method-assign]  # counted instead

    triggers.look(BODY)
    await asyncio.wait_for(database.asked.wait(), 5)
    await triggers.close()

    assert len(nudges) == 1 + 2, "of the resource itself, and of each trigger"


async def test_the_beat_of_a_resource_whose_name_another_one_has_is_not_listened_to() -> None:
    triggers = Triggers(keeping(), None)  # type: ignore[arg-type]
    keeper = triggers._keepers[KEY] = Counted(KEY, keeping())
    successor = merged(BODY, {"metadata": {"uid": "two"}})
    keeper.look(successor)
    await passed()

    triggers.beat(BODY)
    await passed()

    assert (keeper.uid, keeper.passes) == ("two", 1)
    await triggers.close()


async def test_a_first_look_that_takes_long_holds_up_nobody_else() -> None:
    gate, done = asyncio.Semaphore(1), asyncio.Event()

    async def look_for_ever() -> None:
        async with in_turn(gate, longest_seconds=0):
            await done.wait()

    slow = asyncio.create_task(look_for_ever())
    await passed()
    async with asyncio.timeout(5), in_turn(gate, longest_seconds=60):
        assert not slow.done()
        assert gate.locked()

    done.set()
    await slow
    assert gate._value == 1, "each lets one pass, once"
