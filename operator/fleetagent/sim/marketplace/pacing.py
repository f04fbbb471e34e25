"""The market's rate limits: a minimum interval per call and account, ten searches a minute, a daily search quota."""

from collections import defaultdict, deque

from fleetagent.sim.marketplace.errors import TooOften

INTERVALS_S = {"create": 4.5, "destroy": 3.0, "show": 2.0, "list": 1.0, "update": 1.0}
CREATE_PENALTY_S = 12.0
SEARCHES_PER_MINUTE = 10
DAY_S = 86_400


class Pacer:
    """Raises `TooOften` below the interval; all times are seconds of the wall clock."""

    def __init__(self, *, enabled: bool, searches_per_day: int | None) -> None:
        self._enabled = enabled
        self._searches_per_day = searches_per_day
        self._free_at: dict[tuple[int, str], float] = {}
        self._searches: dict[int, deque[float]] = defaultdict(deque)
        self._searched: dict[tuple[int, int], int] = defaultdict(int)

    def admit(self, account_id: int, call: str, wall_s: float) -> None:
        """Let one call pass, or not."""
        if call == "search":
            self._count_search(account_id, wall_s)
        if not self._enabled:
            return
        if call == "search":
            self._admit_search(account_id, wall_s)
            return
        interval = INTERVALS_S.get(call, 0.0)
        free_at = self._free_at.get((account_id, call), 0.0)
        if wall_s < free_at:
            if call == "create":
                self._free_at[account_id, call] = wall_s + CREATE_PENALTY_S
            raise TooOften(
                f"API requests too frequent: endpoint threshold={interval}", self._free_at[account_id, call] - wall_s
            )
        self._free_at[account_id, call] = wall_s + interval

    def _admit_search(self, account_id: int, wall_s: float) -> None:
        recent = self._searches[account_id]
        while recent and recent[0] <= wall_s - 60:
            recent.popleft()
        if len(recent) >= SEARCHES_PER_MINUTE:
            raise TooOften("API requests too frequent", recent[0] + 60 - wall_s)
        recent.append(wall_s)

    def _count_search(self, account_id: int, wall_s: float) -> None:
        day = int(wall_s // DAY_S)
        if self._searches_per_day is None:
            return
        if self._searched[account_id, day] >= self._searches_per_day:
            raise TooOften("search_quota_exceeded", (day + 1) * DAY_S - wall_s)
        self._searched[account_id, day] += 1
