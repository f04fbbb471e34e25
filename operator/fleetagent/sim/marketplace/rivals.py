"""Other people on the market: they take offers before we do, hold machines for a while, and give them back."""

from collections import Counter

from fleetagent.sim.marketplace.draws import Draws
from fleetagent.sim.marketplace.hosts import Host
from fleetagent.sim.marketplace.supply import AWAY_HOURS, HOUR_S, Supply

OLD_OFFER_S = 2 * HOUR_S


class Rivals:
    """Who has a host now. A reliable market loses no race, and lets us have what it once offered."""

    def __init__(self, supply: Supply, draws: Draws, *, reliable: bool) -> None:
        self._supply = supply
        self._draws = draws
        self._reliable = reliable
        self._tries: Counter[int] = Counter()
        self._taken_until: dict[int, float] = {}

    def leave(self, host: Host, now: float) -> bool:
        """Whether it is on offer."""
        return now >= self._taken_until.get(host.machine_id, 0.0) and self._supply.for_rent(host, now)

    def free_from(self, host: Host, now: float) -> float:
        """When it can be had again; now, if nobody has it."""
        if self._reliable:
            return now
        return max(self._taken_until.get(host.machine_id, 0.0), self._supply.free_from(host, now))

    def take(self, host: Host, now: float) -> None:
        """One of them rents it."""
        self._taken_until[host.machine_id] = now + AWAY_HOURS * HOUR_S

    def win_race(self, host: Host, now: float) -> bool:
        """Whether somebody else is faster at this try, more often so for an offer that has stood for long."""
        self._tries[host.ask_id] += 1
        if self._reliable:
            return False
        chance = 0.05 + 0.05 * min(1.0, self._supply.listed_for_s(host, now) / OLD_OFFER_S)
        if self._draws.of("race", host.ask_id, self._tries[host.ask_id]).random() >= chance:
            return False
        self.take(host, now)
        return True
