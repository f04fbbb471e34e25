"""All leases of a process are renewed together; who loses one ends, and nobody else does."""

import asyncio
from collections.abc import Collection
from datetime import timedelta

import pytest

from fleetagent.agent.lease import Ownership
from fleetagent.agent.unbroken import unbroken
from fleetagent.domain.records import Lease, Renewed
from fleetagent.errors import LeaseLost, NotStorable, TryLater

SOON = 5.0
AT_ONCE = timedelta(0)


class Told:
    """A memory that says of each renewal what it was told to, then that all is well."""

    def __init__(self, *answers: Renewed | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[frozenset[Lease]] = []

    async def renew(self, leases: Collection[Lease]) -> Renewed:
        self.asked.append(frozenset(leases))
        answer = self.answers.pop(0) if self.answers else Renewed(frozenset(), frozenset())
        if isinstance(answer, Exception):
            raise answer
        return answer


def lost(*leases: Lease) -> Renewed:
    return Renewed(frozenset(leases), frozenset())


async def until(condition: object) -> None:
    for _ in range(1000):
        if condition():  # type: ignore[operator]
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to that")


async def test_a_lost_lease_is_an_error_and_no_cancellation() -> None:
    with pytest.raises(LeaseLost):
        async with Ownership(Told(lost(Lease(1, 1))), AT_ONCE).kept(Lease(1, 1)):
            await asyncio.Event().wait()
    await asyncio.sleep(0)  # nothing of it reaches what comes after


async def test_whoever_is_told_to_end_ends_although_the_lease_is_lost_at_the_same_time() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def destroy() -> None:
        begun.set()
        await may_end.wait()

    async def work() -> None:
        async with Ownership(Told(lost(Lease(1, 1))), AT_ONCE).kept(Lease(1, 1)):
            await unbroken(destroy())

    task = asyncio.create_task(work())
    await begun.wait()
    for _ in range(10):
        await asyncio.sleep(0)  # the lease is lost now
    task.cancel()
    await asyncio.sleep(0)
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)


async def test_a_thousand_leases_are_renewed_by_one_call_and_the_lost_one_ends_alone() -> None:
    memory = Told(lost(Lease(7, 1)))
    ownership, may_end = Ownership(memory, AT_ONCE), asyncio.Event()

    async def work(agent_id: int) -> int:
        async with ownership.kept(Lease(agent_id, 1)):
            await may_end.wait()
        return agent_id

    tasks = [asyncio.create_task(work(agent_id)) for agent_id in range(1000)]
    await until(lambda: len(memory.asked) > 1)
    may_end.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert len(memory.asked[0]) == 1000
    assert memory.asked[1] == memory.asked[0] - {Lease(7, 1)}
    assert isinstance(ended.pop(7), LeaseLost)
    assert ended == [agent_id for agent_id in range(1000) if agent_id != 7]


async def test_a_memory_that_does_not_answer_ends_nobody_and_is_asked_again() -> None:
    memory = Told(TryLater("database: no answer in time"), Renewed(frozenset(), frozenset({Lease(1, 1)})))

    async with Ownership(memory, AT_ONCE).kept(Lease(1, 1)):
        await until(lambda: len(memory.asked) == 3)


async def test_a_renewal_that_fails_as_nobody_thought_is_logged_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = Told(NotStorable("the database refuses a row"), KeyError("held"), lost(Lease(1, 1)))

    async def work() -> None:
        async with Ownership(memory, AT_ONCE).kept(Lease(1, 1)):
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost):
        await asyncio.wait_for(work(), SOON)
    assert len(memory.asked) == 3
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


async def test_nobody_is_asked_any_more_when_no_lease_is_held_and_again_when_one_is() -> None:
    memory = Told()
    ownership = Ownership(memory, AT_ONCE)
    for _ in range(2):
        memory.asked.clear()
        async with ownership.kept(Lease(1, 1)):
            await until(lambda: memory.asked)
        for _ in range(10):
            await asyncio.sleep(0)
        asked = len(memory.asked)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(memory.asked) == asked
