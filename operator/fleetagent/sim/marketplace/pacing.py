"""The market's rate limits: a minimum interval per call and key, ten searches a minute, a daily search quota."""

from collections import defaultdict, deque

from fleetagent.sim.marketplace.errors import TooOften, search_quota_exceeded

INTERVALS_S = {
    "create": 4.5,
    "create_many": 4.5,
    "destroy": 3.0,
    "destroy_many": 3.0,
    "show": 2.0,
    "start_many": 2.0,
    "logs": 1.5,
    "list": 1.0,
    "filters": 1.0,
    "update": 1.0,
    "reboot": 1.0,
    "price_rises": 1.0,
    "price_answer": 1.0,
}
CREATE_PENALTY_S = 12.0
SEARCHES_PER_MINUTE = 10
DAY_S = 86_400


class Pacer:
    """Raises `TooOften` below the interval of a key; all times are seconds of the wall clock."""

    def __init__(self, *, enabled: bool, searches_per_day: int | None) -> None:
        self._enabled = enabled
        self._searches_per_day = searches_per_day
        self._free_at: dict[tuple[str, str], float] = {}
        self._searches: dict[str, deque[float]] = defaultdict(deque)
        self._searched: dict[tuple[str, int], int] = defaultdict(int)

    def admit(self, key: str, call: str, wall_s: float) -> None:
        """Let one call pass, or not."""
        if call == "search":
            self._admit_search(key, wall_s)
        elif self._enabled:
            self._keep_interval(key, call, wall_s)

    def _keep_interval(self, key: str, call: str, wall_s: float) -> None:
        interval = INTERVALS_S.get(call, 0.0)
        free_at = self._free_at.get((key, call), 0.0)
        if wall_s >= free_at:
            self._free_at[key, call] = wall_s + interval
            return
        if call == "create":
            free_at = self._free_at[key, call] = wall_s + CREATE_PENALTY_S
        raise TooOften(f"API requests too frequent: endpoint threshold={interval}", free_at - wall_s)

    def _admit_search(self, key: str, wall_s: float) -> None:
        day = int(wall_s // DAY_S)
        if self._searches_per_day is not None:
            if self._searched[key, day] >= self._searches_per_day:
                raise search_quota_exceeded((day + 1) * DAY_S)
            self._searched[key, day] += 1
        if not self._enabled:
            return
        recent = self._searches[key]
        while recent and recent[0] <= wall_s - 60:
            recent.popleft()
        if len(recent) >= SEARCHES_PER_MINUTE:
            raise TooOften("API requests too frequent", recent[0] + 60 - wall_s)
        recent.append(wall_s)
