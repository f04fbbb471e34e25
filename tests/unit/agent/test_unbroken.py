"""An effect that has begun is carried to its end."""

import asyncio

import pytest

from fleetagent.agent.unbroken import unbroken


async def test_an_effect_is_carried_to_its_end_however_often_its_run_is_cancelled() -> None:
    may_end, ended = asyncio.Event(), []

    async def effect() -> str:
        await may_end.wait()
        ended.append(True)
        return "done"

    run = asyncio.create_task(unbroken(effect()))
    for _ in range(3):
        await asyncio.sleep(0)
        run.cancel()
    await asyncio.sleep(0)
    assert not run.done()

    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended


async def test_its_result_is_handed_on() -> None:
    async def effect() -> str:
        return "done"

    assert await unbroken(effect()) == "done"


async def test_its_failure_is_told_with_the_cancellation() -> None:
    may_end = asyncio.Event()

    async def effect() -> None:
        await may_end.wait()
        raise ValueError("the database is away")

    run = asyncio.create_task(unbroken(effect()))
    await asyncio.sleep(0)
    run.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError, match="the database is away"):
        await run
