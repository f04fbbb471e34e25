"""What many open pages ask for at the same moment, when all of them are told of one change, is read once."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Read = TypeVar("Read")

NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Kept:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    at: datetime = NEVER
    news: int = -1
    value: Any = None


class Recent:
    """Keeps what was read for a moment. News make it old: who comes for them must not be shown what was before."""

    def __init__(self) -> None:
        self._news = 0
        self._kept: dict[Hashable, _Kept] = {}

    def there_is_news(self) -> None:
        """From now on, nothing that was read before is shown."""
        self._news += 1

    async def of(self, what: Hashable, now: datetime, lasting: timedelta, read: Callable[[], Awaitable[Read]]) -> Read:
        """What `read` says, or said for somebody else a moment ago. It must be the same for all who may see it."""
        kept = self._kept.get(what)
        if kept is None:
            self._let_go(now, lasting)
            kept = self._kept[what] = _Kept()
        async with kept.lock:
            if kept.news != self._news or not now - lasting < kept.at <= now:
                news = self._news  # what comes while it is read is news
                kept.value = await read()
                kept.at, kept.news = now, news
            value: Read = kept.value
            return value

    def _let_go(self, now: datetime, lasting: timedelta) -> None:
        for what in [what for what, kept in self._kept.items() if not kept.lock.locked() and kept.at <= now - lasting]:
            del self._kept[what]
