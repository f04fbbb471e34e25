"""Two times: market time, scaled and movable, drives what happens; the wall clock dates what clients see and pay.

A client keeps its own clock, so `start_date`, `end_date`, read lags and intervals between calls are in wall time, while
loading, benchmarks, losses and prices follow market time. At scale 1 they are the same.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress


class Clock:
    """Market seconds since the start; `advance` jumps ahead and wakes whoever waits."""

    def __init__(
        self,
        time_scale: float = 1.0,
        *,
        steady: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.time_scale = time_scale
        self.wall = wall
        """Seconds since 1970, unscaled."""
        self._steady = steady
        self._started = steady()
        self._jumped = 0.0
        self._stir = asyncio.Event()

    def market(self) -> float:
        """Seconds of market time since the start."""
        return (self._steady() - self._started) * self.time_scale + self._jumped

    def advance(self, seconds: float) -> None:
        """Let market time jump; the wall clock does not follow."""
        self._jumped += seconds
        self.stir()

    def stir(self) -> None:
        """Wake every `doze`: something else than time has moved."""
        self._stir.set()
        self._stir = asyncio.Event()

    async def doze(self, until: float) -> None:
        """Return at `until` (market time), or earlier when the clock was advanced or something stirred."""
        stirred = self._stir
        left_s = (until - self.market()) / self.time_scale
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, left_s)):
                await stirred.wait()

    async def sleep(self, seconds: float) -> None:
        """Let so many market seconds pass."""
        until = self.market() + seconds
        while self.market() < until:
            await self.doze(until)
