"""How often the market may be asked: one pacer for all, so that ten agents with one key do not poll tenfold.

The market's limits hold for each key and kind of call, those of searches for the whole address. So each pair of
identity and endpoint has one slot here; a 429 that one caller meets closes the slot for all of them, and when it opens
again a single call tries whether the market answers before others follow.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from fleetagent.errors import TryLater

DAY_S = 86_400


class Endpoint(StrEnum):
    """Calls that the market counts together."""

    SEARCH = "search"
    SEARCH_QUOTA = "search quota"
    LIST = "list"
    SHOW = "show"
    CREATE = "create"
    DESTROY = "destroy"
    ACCOUNT = "account"
    PRICE_RISES = "price rises"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many calls begin within any stretch of so many seconds."""

    calls: int
    seconds: float


DEFAULT_LIMITS: Mapping[Endpoint, Limit] = {
    Endpoint.SEARCH: Limit(10, 60.5),
    Endpoint.LIST: Limit(1, 1.1),
    Endpoint.SHOW: Limit(1, 2.1),
    Endpoint.CREATE: Limit(1, 4.6),
    Endpoint.DESTROY: Limit(1, 3.1),
    Endpoint.ACCOUNT: Limit(1, 1.1),
    Endpoint.PRICE_RISES: Limit(1, 5.0),
}
"""The market's documented intervals and a little, since calls do not arrive as evenly as they leave."""

NO_LIMITS: Mapping[Endpoint, Limit] = {}
"""For a market that does not count, such as a simulated one. A 429 is honoured all the same."""


@dataclass(slots=True)
class _Slot:
    begun_at: deque[float] = field(default_factory=deque)
    closed_until: float = 0.0
    refusals: int = 0
    waiting: int = 0
    under_way: int = 0
    landed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a call that was under way has its answer, or will have none."""
    queue: asyncio.Lock = field(default_factory=asyncio.Lock)


class Pacer:
    """Lets calls begin no faster than the market takes them; first come, first served."""

    def __init__(
        self,
        limits: Mapping[Endpoint, Limit] = DEFAULT_LIMITS,
        *,
        first_backoff_seconds: float = 15.0,
        longest_backoff_seconds: float = 120.0,
        patience_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.clock = clock
        self.wall_clock = wall_clock
        self.sleep = sleep
        self._limits = limits
        self._first_backoff_seconds = first_backoff_seconds
        self._longest_backoff_seconds = longest_backoff_seconds
        self._patience_seconds = patience_seconds
        self._slots: defaultdict[tuple[str, Endpoint], _Slot] = defaultdict(_Slot)

    @asynccontextmanager
    async def turn(self, identity: str, endpoint: Endpoint) -> AsyncIterator[None]:
        """Enter when the call may begin, leave with its answer; `TryLater` at once when that is too far away."""
        slot, limit = self._slots[identity, endpoint], self._limits.get(endpoint)
        queue_seconds = slot.waiting * limit.seconds / limit.calls if limit else 0.0
        self._bear(endpoint, self._wait(slot, limit) + queue_seconds)
        slot.waiting += 1
        try:
            async with slot.queue:
                await self._free(slot, limit, endpoint)
                slot.under_way += 1
                if limit:
                    slot.begun_at.append(self.clock())
        finally:
            slot.waiting -= 1
        try:
            yield
        finally:
            slot.under_way -= 1
            slot.landed.set()

    async def _free(self, slot: _Slot, limit: Limit | None, endpoint: Endpoint) -> None:
        """In a loop, since a 429 that somebody else meets meanwhile moves the moment."""
        while True:
            if (wait := self._wait(slot, limit)) > 0:
                self._bear(endpoint, wait)
                await self.sleep(wait)
            elif slot.refusals and slot.under_way:  # one of us is trying it; many at once would only be refused again
                slot.landed.clear()
                await slot.landed.wait()
            else:
                return

    def _wait(self, slot: _Slot, limit: Limit | None) -> float:
        return max(0.0, max(slot.closed_until, _free_at(slot, limit)) - self.clock())

    def _bear(self, endpoint: Endpoint, wait_seconds: float) -> None:
        if wait_seconds > self._patience_seconds:
            message = f"the market takes no {endpoint} call for another {wait_seconds:.0f} s"
            if endpoint is Endpoint.SEARCH_QUOTA:
                message = "the market's search quota of the day is used up: no search before 00:00 UTC"
            raise TryLater(message, retry_after_seconds=wait_seconds)

    def refused(self, identity: str, endpoint: Endpoint, retry_after_seconds: float | None) -> float:
        """After a 429: close the slot as long as the market says, else for a time that doubles; returns the seconds."""
        slot, now = self._slots[identity, endpoint], self.clock()
        if now >= slot.closed_until:  # calls that were under way together are refused once, not once each
            slot.refusals += 1
        doubled = self._first_backoff_seconds * 2.0 ** min(slot.refusals - 1, 16)
        wait = min(doubled, self._longest_backoff_seconds) if retry_after_seconds is None else retry_after_seconds
        slot.closed_until = max(slot.closed_until, now + wait)
        return slot.closed_until - now

    def served(self, identity: str, endpoint: Endpoint) -> None:
        """The market took the call: the next back-off starts small again."""
        self._slots[identity, endpoint].refusals = 0

    def interval_seconds(self, endpoint: Endpoint) -> float:
        """How far apart such calls must be for one key; 0 where nobody counts."""
        limit = self._limits.get(endpoint)
        return limit.seconds / limit.calls if limit else 0.0

    def seconds_to_midnight(self) -> float:
        """Until 00:00 UTC, when daily quotas begin anew."""
        return DAY_S - self.wall_clock() % DAY_S


def _free_at(slot: _Slot, limit: Limit | None) -> float:
    """When the next call would be inside the limit."""
    if limit is None:
        return 0.0
    while len(slot.begun_at) > limit.calls:
        slot.begun_at.popleft()
    return slot.begun_at[0] + limit.seconds if len(slot.begun_at) == limit.calls else 0.0
