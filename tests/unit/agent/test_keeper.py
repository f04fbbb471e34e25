"""A keeper ends when it is told to, whatever happens at that moment."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.keeper import Keeper
from fleetagent.agent.lease import Ownership
from fleetagent.agent.subject import Subject
from fleetagent.agent.triggers import Triggers
from fleetagent.domain.records import AgentKey, Lease, Renewed, Taken
from fleetagent.domain.resource import Mode
from fleetagent.domain.schedule import Pending, Trigger
from fleetagent.errors import NotStorable
from support.manifests import a_manifest

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SOON = 5.0
BODY = {"metadata": {"namespace": "fleet", "name": "porep", "uid": "one"}}


class Idle(Keeper):
    """Nothing is ever due."""

    async def _try(self) -> datetime | None:
        return None


def keeping(**more: Any) -> Any:
    hour = timedelta(hours=1)
    return SimpleNamespace(look_every=hour, retry_after=hour, now=lambda: NOON, meter=Metrics(), **more)


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
        self.pending: tuple[Pending, ...] = ()

    async def take(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        await self.may_tell.wait()
        taken = {"lease": Lease(1, 7), "record": SimpleNamespace(last_run_id=0), "left_running": ()}
        return SimpleNamespace(**taken, waited_too_long=False, pending=self.pending, wakes=(), untold=False, last=None)

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


async def test_a_lease_that_cannot_be_released_keeps_no_keeper_from_its_end() -> None:
    memory = SlowToTell()
    memory.may_tell.set()

    async def refuse(_: Lease) -> None:
        raise NotStorable("the database refuses a row")

    memory.release = refuse  # type: ignore[method-assign, assignment]
    keeper = Keeper(AgentKey("fleet", "porep"), keeping(agents=memory, starting=asyncio.Semaphore(1)))
    keeper._lease = Lease(1, 7)

    await asyncio.wait_for(keeper.stop(), SOON)

    assert keeper._lease is None


class Renewing(SlowToTell):
    """A memory in which each release takes as long as a renewal that begins at that moment."""

    def __init__(self) -> None:
        super().__init__()
        self.may_tell.set()
        self.free: set[Lease] = set()
        self.is_over = asyncio.Event()

    async def release(self, lease: Lease) -> None:
        self.free.add(lease)
        for _ in range(10):
            await asyncio.sleep(0)
        await super().release(lease)
        self.is_over.set()

    async def renew(self, leases: Collection[Lease]) -> Renewed:
        return Renewed(frozenset(leases) & self.free, frozenset())


class Resting(Keeper):
    """Finds nothing to do."""

    async def _serve(self, subject: Subject, _: Taken) -> Subject:
        return subject

    def _subject(self, *_: object) -> Any:
        calm = SimpleNamespace(mode=Mode.SUSPENDED, retention=None)
        return SimpleNamespace(key=self.key, spec=calm)


async def nothing(*_: Any, **__: Any) -> None:
    return None


def resting(memory: Renewing) -> Resting:
    k = keeping(
        agents=memory,
        ownership=Ownership(memory, timedelta(0)),
        served=SimpleNamespace(persist=nothing),
        prune=nothing,
        starting=asyncio.Semaphore(1),
    )
    keeper = Resting(AgentKey("fleet", "porep"), k)
    keeper._timetable = SimpleNamespace(watch=list, unwatch=list, problem=lambda _: None)  # type: ignore[assignment]
    keeper._sight.look = keeper._sight.tell = nothing  # type: ignore[method-assign]
    keeper.look(a_manifest(metadata={"uid": "one"}))
    return keeper


async def test_a_lease_that_is_released_at_the_moment_of_its_renewal_is_not_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    memory = Renewing()
    keeper = resting(memory)

    await asyncio.wait_for(memory.is_over.wait(), SOON)
    await keeper.stop()

    assert "another process owns this agent now" not in caplog.text


async def test_what_a_suspended_agent_is_called_for_is_not_told_as_waiting_for_a_run() -> None:
    memory = Renewing()
    memory.pending = (Pending(1, Trigger.REQUEST, "now", None, NOON),)
    keeper = resting(memory)

    await asyncio.wait_for(memory.is_over.wait(), SOON)
    told = keeper._k.meter.text().decode()  # type: ignore[attr-defined]
    await keeper.stop()

    assert "fleetagent_oldest_trigger_timestamp_seconds{" not in told
