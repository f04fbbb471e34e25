"""How often somebody may do something: so much at once, and one more in each span of time."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

MOST_REMEMBERED = 10_000


class Allowances:
    """One for each name that asks. Bounded: who has not asked for the longest is forgotten, and begins anew."""

    def __init__(
        self, at_once: float, seconds_each: float, clock: Callable[[], float], *, most: int = MOST_REMEMBERED
    ) -> None:
        self._at_once = at_once
        self._seconds_each = seconds_each
        self._clock = clock
        self._most = most
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, who: Hashable) -> float:
        """0 for who may, which counts; else how long until then. To ask too early costs nothing more."""
        now = self._clock()
        left, then = self._left.pop(who, (self._at_once, now))
        left = min(self._at_once, left + (now - then) / self._seconds_each)
        wait = 0.0 if left >= 1 else (1 - left) * self._seconds_each
        self._left[who] = (left - 1 if left >= 1 else left, now)
        while len(self._left) > self._most:
            self._left.popitem(last=False)
        return wait
