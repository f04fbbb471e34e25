"""Runs that are called for in one moment begin some at a time: each is at its model soon, instead of all late."""

import asyncio

import pytest

from fleetagent.agent.desk import Desk
from support.fakes import StrictModel, calls, says
from support.rehearsal import Rehearsal, a_tool


async def turns(count: int = 200) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_next_run_begins_when_the_one_before_waits_for_its_model_and_not_sooner() -> None:
    one_at_a_time, at_the_model, may_go_on = asyncio.Semaphore(1), asyncio.Event(), asyncio.Event()

    async def wait(_: Desk) -> dict[str, str]:
        at_the_model.set()
        await may_go_on.wait()
        return {}

    first = Rehearsal(StrictModel(calls("wait"), says()), (a_tool("wait", wait),), starting=one_at_a_time)
    second = Rehearsal(StrictModel(says()), starting=one_at_a_time)
    look = first.observe
    seen = asyncio.Event()

    async def slow_look(*args: object, **kwargs: object) -> object:
        await seen.wait()
        return await look(*args, **kwargs)  # type: ignore[arg-type]

    first.observe = slow_look  # type: ignore[method-assign, assignment]
    running = asyncio.create_task(first.run())
    waiting = asyncio.create_task(second.run())
    await turns()
    assert (first.memory.started, second.memory.started) == (1, 0)

    seen.set()
    await at_the_model.wait()
    await turns()
    assert second.memory.started == 1
    assert not first.memory.concluded
    await waiting
    may_go_on.set()
    await running


async def test_who_is_told_to_end_while_it_waits_for_its_turn_has_claimed_nothing() -> None:
    taken = asyncio.Semaphore(1)
    await taken.acquire()
    on = Rehearsal(StrictModel(says()), starting=taken)
    task = asyncio.create_task(on.run())
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (on.memory.started, on.memory.interrupted) == (0, {})
    taken.release()
    await on.run()
