"""Who may speak for a machine, known without asking the database each time: a flood of strangers never reaches it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection

from fleetagent.adapters.postgres.worker_tokens import TOKEN, token_hash
from fleetagent.domain.allowance import Allowances

LOOK_AGAIN_SECONDS = 1.0
LOOKS_AT_ONCE = 10


class Doorman:
    """Holds the hashes of all live machines' secrets. One that it does not know makes it look, but seldom."""

    def __init__(
        self, hashes: Callable[[], Awaitable[Collection[str]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._hashes = hashes
        self._clock = clock
        self._known: Collection[str] = frozenset()
        self._one_look = asyncio.Lock()
        self._looked_at = float("-inf")
        self._looks = Allowances(LOOKS_AT_ONCE, LOOK_AGAIN_SECONDS, clock, most=1)

    async def knows(self, token: str) -> bool | None:
        """Whether a live machine has this secret; None: not known now, ask again in a second. `TryLater`.

        No is only said after a look that began later than the question: a machine may be a moment old.
        """
        if TOKEN.fullmatch(token) is None:
            return False
        asked_at, hashed = self._clock(), token_hash(token)
        if hashed in self._known:
            return True
        async with self._one_look:
            if hashed in self._known:
                return True
            if self._looked_at > asked_at:
                return False
            if self._looks.wait_seconds("all strangers"):
                return None
            began_at = self._clock()
            self._known = await self._hashes()
            self._looked_at = began_at  # not before: a look that failed says nothing about anybody
        return hashed in self._known
