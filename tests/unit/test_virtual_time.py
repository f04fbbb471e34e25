"""The loop in which a week takes as long as its work."""

import asyncio
from datetime import UTC, datetime, timedelta

from support import virtual_time
from support.virtual_time import VirtualLoop, calendar

START = datetime(2027, 1, 4, tzinfo=UTC)


def test_a_week_passes_at_once_and_those_who_sleep_wake_in_order() -> None:
    woken = []

    async def sleeper(hours: float) -> None:
        await asyncio.sleep(hours * 3600)
        woken.append(hours)

    async def main(loop: VirtualLoop) -> datetime:
        await asyncio.gather(sleeper(168), sleeper(1), sleeper(24))
        return calendar(loop, START)()

    assert virtual_time.run(main) == START + timedelta(days=7)
    assert woken == [1, 24, 168]


def test_the_work_of_a_thread_takes_no_virtual_time() -> None:
    async def main(loop: VirtualLoop) -> float:
        async with asyncio.timeout(0.001):
            await asyncio.to_thread(sum, range(100_000))
        return loop.time()

    assert virtual_time.run(main) == 0


def test_a_time_out_is_one_of_virtual_time() -> None:
    async def main(loop: VirtualLoop) -> float:
        try:
            async with asyncio.timeout(3600):
                await asyncio.sleep(7200)
        except TimeoutError:
            return loop.time()
        return -1

    assert virtual_time.run(main) == 3600
