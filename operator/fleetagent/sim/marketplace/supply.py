"""How offers move: prices that return to their mean, and hosts that other people rent and give back.

Both are functions of market time.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence

from fleetagent.sim.marketplace.draws import Draws
from fleetagent.sim.marketplace.hosts import Host

HOUR_S = 3600.0
LEAVING_PER_HOUR = 0.075
AWAY_HOURS = 1.3
DRIFT_PER_HOUR = 0.05
PULL_TO_MEAN = 0.1


class Supply:
    """Who is for rent at which price; renting by our own accounts is the market's affair."""

    def __init__(self, hosts: Sequence[Host], draws: Draws, *, moving: bool) -> None:
        self.hosts = tuple(hosts)
        self._by_ask = {host.ask_id: host for host in hosts}
        self._draws = draws
        self._moving = moving
        self._walks: dict[int, list[float]] = {}
        self._turns: dict[int, list[float]] = {}

    def by_ask(self, ask_id: int) -> Host | None:
        """The host behind an offer, for rent or not."""
        return self._by_ask.get(ask_id)

    def usd_per_hour(self, host: Host, market_s: float) -> float:
        """The GPU price; it moves once an hour, each host at its own minute."""
        if not self._moving:
            return host.usd_per_hour
        hour = int(market_s / HOUR_S + host.phase)
        walk = self._walks.setdefault(host.machine_id, [0.0])
        while len(walk) <= hour:
            noise = self._draws.of("price", host.machine_id, len(walk)).gauss(0.0, DRIFT_PER_HOUR)
            walk.append(walk[-1] * (1 - PULL_TO_MEAN) + noise)
        return round(host.usd_per_hour * math.exp(walk[hour]), 4)

    def for_rent(self, host: Host, market_s: float) -> bool:
        """Whether nobody outside has rented it; at the start nobody has."""
        return not self._moving or bisect_right(self._turns_until(host, market_s), market_s) % 2 == 0

    def free_from(self, host: Host, market_s: float) -> float:
        """When those outside who have it now give it back; now, if nobody has it."""
        if self.for_rent(host, market_s):
            return market_s
        turns = self._turns_until(host, market_s)
        return turns[bisect_right(turns, market_s)]

    def listed_for_s(self, host: Host, market_s: float) -> float:
        """How long the offer has stood in the list; an old offer is more often lost at create."""
        if not self._moving:
            return market_s
        turns = self._turns_until(host, market_s)
        passed = bisect_right(turns, market_s)
        return market_s - (turns[passed - 1] if passed else 0.0)

    def _turns_until(self, host: Host, market_s: float) -> list[float]:
        """When it left, came back, left again…; drawn as far as somebody has asked."""
        turns = self._turns.setdefault(host.machine_id, [])
        while not turns or turns[-1] <= market_s:
            leaving = len(turns) % 2 == 0
            per_hour = LEAVING_PER_HOUR if leaving else 1 / AWAY_HOURS
            lasting = self._draws.of("turns", host.machine_id, len(turns)).expovariate(per_hour)
            turns.append((turns[-1] if turns else 0.0) + lasting * HOUR_S)
        return turns
