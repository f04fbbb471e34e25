"""Who may rent now: one buyer at a time for each key, no offer twice, and what refuses them money."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal

from fleetagent.errors import TryLater

PATIENCE_S = 120.0
"""A buyer reads the offer, the fleet and the market's answer, each at the market's pace."""

BOUGHT_FOR_S = 600.0
"""How long reads may go on showing an offer that was taken, and then some."""

REFUSED_FOR_S = 3600.0
"""A refusal that no rising credit has ended is not believed for ever: the next launch asks again anyhow."""


class Buyers:
    """Shared by all agents of the process."""

    def __init__(self, *, patience_seconds: float = PATIENCE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._bought: dict[tuple[str, str], float] = {}
        self._refused: dict[str, tuple[str, float]] = {}
        self._credit: dict[str, Decimal] = {}

    @asynccontextmanager
    async def turn(self, identity: str) -> AsyncIterator[None]:
        """The block is alone with this key; `TryLater` when others take too long."""
        turn = self._turns[identity]
        try:
            async with asyncio.timeout(self._patience_seconds):
                await turn.acquire()
        except TimeoutError as error:
            raise TryLater("other agents with the same market key are renting: nothing was sent") from error
        try:
            yield
        finally:
            turn.release()

    def claim(self, market: str, offer_id: str) -> bool:
        """Take this offer for oneself; False when one of us was given it lately: bought twice, one never starts."""
        now = self._clock()
        self._bought = {offer: until for offer, until in self._bought.items() if until > now}
        if (market, offer_id) in self._bought:
            return False
        self._bought[market, offer_id] = now + BOUGHT_FOR_S
        return True

    def give_back(self, market: str, offer_id: str) -> None:
        """It was certainly not rented and may still be there."""
        self._bought.pop((market, offer_id), None)

    def lacks_money(self, identity: str, said: str) -> None:
        """The market refused a launch of this account for want of money."""
        self._refused[identity] = (said, self._clock() + REFUSED_FOR_S)

    def rented(self, identity: str) -> None:
        """The market took a launch of this account: it has money."""
        self._refused.pop(identity, None)

    def refusal(self, identity: str, credit_usd: Decimal | None) -> str | None:
        """Why this account can't rent, as far as a launch was told so since its credit last rose."""
        before = self._credit.get(identity)
        if credit_usd is not None:
            self._credit[identity] = credit_usd
            if before is not None and credit_usd > before:
                self._refused.pop(identity, None)
        said, until = self._refused.get(identity, ("", 0.0))
        if not said or self._clock() >= until:
            self._refused.pop(identity, None)
            return None
        return said
