"""What was read seconds ago, for all who ask with the same key: one reads, the others wait for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

T = TypeVar("T")

MOST_REMEMBERED = 1024
LONG_AGO = float("-inf")


@dataclass(slots=True)
class _Entry(Generic[T]):
    answer: T | None = None
    begun_at: float = LONG_AGO
    writes: int = 0
    """How many writes began or ended since the entry was made."""
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Recent(Generic[T]):
    """Answers for each key, as old as `seconds` at most; failures are not kept."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._entries: dict[str, _Entry[T]] = {}

    async def recall(self, key: str, read: Callable[[], Awaitable[T]]) -> T:
        """What began to be read no longer than `seconds` before this was asked, and after every write; else anew."""
        asked_at = self._clock()
        entry = self._entries.setdefault(key, _Entry())
        async with entry.reading:
            if asked_at - entry.begun_at < self._seconds:
                return cast("T", entry.answer)
            begun_at, writes = self._clock(), entry.writes
            answer = await read()
            if entry.writes == writes:  # else it may show the world before the write
                entry.answer, entry.begun_at = answer, begun_at
        self._forget_old()
        return answer

    def written(self, key: str) -> None:
        """A write begins or ends: whatever was read before, or is being read, is not told to anybody later."""
        if entry := self._entries.get(key):
            entry.writes += 1
            entry.begun_at = LONG_AGO

    def _forget_old(self) -> None:
        if len(self._entries) <= MOST_REMEMBERED:
            return
        oldest = self._clock() - self._seconds
        self._entries = {k: e for k, e in self._entries.items() if e.begun_at > oldest or e.reading.locked()}
