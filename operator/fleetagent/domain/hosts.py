"""How long a host that failed us is left out: longer with each failure, and forgiven as time passes without one."""

from datetime import datetime, timedelta

FIRST_EXCLUSION = timedelta(hours=1)
LONGEST_EXCLUSION = timedelta(days=7)
FORGIVEN_AFTER = timedelta(days=3)
"""Without a failure for so long, one earlier failure is forgotten."""


def failures_left(failures: int, last_failed_at: datetime | None, now: datetime) -> int:
    """How many of the failures still count; a clock that was set back forgives none."""
    if last_failed_at is None:
        return max(0, failures)
    forgiven = max(0, (now - last_failed_at) // FORGIVEN_AFTER)
    return max(0, failures - forgiven)


def left_out_for(failures: int) -> timedelta:
    """An hour at the first failure, twice as long at each further one, at most a week."""
    doublings = min(max(0, failures - 1), 10)
    return min(FIRST_EXCLUSION * (1 << doublings), LONGEST_EXCLUSION)
