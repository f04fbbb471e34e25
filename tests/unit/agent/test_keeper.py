"""A keeper ends when it is told to, whatever happens at that moment."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fleetagent.agent.keeper import Keeper
from fleetagent.agent.triggers import Triggers
from fleetagent.domain.records import AgentKey, Lease
from support.manifests import a_manifest

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SOON = 5.0
BODY = {"metadata": {"namespace": "fleet", "name": "porep", "uid": "one"}}


class Idle(Keeper):
    """Nothing is ever due."""

    async def _try(self) -> datetime | None:
        return None


def keeping(**more: Any) -> Any:
    return SimpleNamespace(look_every=timedelta(hours=1), retry_after=timedelta(hours=1), now=lambda: NOON, **more)


@pytest.mark.parametrize("turns", range(5))
async def test_a_keeper_stops_although_it_was_nudged_a_moment_before(turns: int) -> None:
    keeper = Idle(AgentKey("fleet", "porep"), keeping())
    keeper.look(BODY)
    for _ in range(5):
        await asyncio.sleep(0)

    keeper.nudge()
    for _ in range(turns):
        await asyncio.sleep(0)

    await asyncio.wait_for(keeper.stop(), SOON)


class Nothing:
    """Nothing waits for anybody, and nothing is left of who is gone."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def waiting(self) -> frozenset[Any]:
        return frozenset()

    async def gone(self, body: Mapping[str, Any]) -> None:
        self.ended.append(body["metadata"]["uid"])


async def test_the_end_of_a_namesake_leaves_the_resource_alone_that_is_kept_now() -> None:
    nothing = Nothing()
    triggers = Triggers(keeping(agents=nothing, listen_every=timedelta(hours=1)), nothing)  # type: ignore[arg-type]
    idle = triggers._keepers[AgentKey("fleet", "porep")] = Idle(AgentKey("fleet", "porep"), keeping())
    triggers.look(BODY)

    await triggers.gone({"metadata": {**BODY["metadata"], "uid": "the one before"}})
    assert list(triggers._keepers.values()) == [idle]
    await triggers.gone(BODY)
    assert not triggers._keepers
    assert nothing.ended == ["one"], "the one that nobody had looked at must not be made known now"
    await triggers.close()


class Silent:
    """A memory in which nothing waits."""

    async def waiting(self) -> frozenset[Any]:
        return frozenset()


async def test_who_rests_lets_go_of_all_and_takes_up_what_it_is_shown_again_and_who_has_closed_does_not() -> None:
    silent = keeping(agents=Silent(), listen_every=timedelta(hours=1))
    triggers = Triggers(silent, None)  # type: ignore[arg-type]  # nothing is deleted here
    triggers.look(BODY)

    await triggers.rest()
    assert not triggers._keepers
    triggers.look(BODY)
    assert triggers._keepers

    await triggers.close()
    triggers.look(BODY)
    assert not triggers._keepers


class SlowToTell:
    """A memory that gives the lease at once, and says so later."""

    def __init__(self) -> None:
        self.asked, self.may_tell = asyncio.Event(), asyncio.Event()
        self.released: list[Lease] = []

    async def take(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        await self.may_tell.wait()
        return SimpleNamespace(lease=Lease(1, 7), record=SimpleNamespace(last_run_id=0), left_running=())

    async def release(self, lease: Lease) -> None:
        self.released.append(lease)


async def test_a_lease_that_is_given_while_the_keeper_is_stopped_is_released() -> None:
    memory = SlowToTell()
    keeper = Keeper(AgentKey("fleet", "porep"), keeping(agents=memory, starting=asyncio.Semaphore(1)))
    keeper.look(a_manifest(metadata={"uid": "one"}))
    await memory.asked.wait()

    stopping = asyncio.create_task(keeper.stop())
    await asyncio.sleep(0)
    memory.may_tell.set()
    await asyncio.wait_for(stopping, SOON)

    assert memory.released == [Lease(1, 7)]
