"""Whether there are proofs to make, as some source says; a source that fails is unknown, not zero."""

from dataclasses import dataclass
from datetime import datetime, timedelta

MOST_PROOFS = 1e12
"""Whoever counts more proofs than this counts something else."""

FRESH_FOR = timedelta(minutes=5)
"""How old, or how far ahead, what a source says may be; older is unknown."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What the demand source says now. `queued` counts proofs, `arrival_per_hour` proofs per hour."""

    active: bool
    queued: int | None = None
    arrival_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class DemandUnknown:
    """The source failed or made no sense: neither launch nor stop."""

    because: str
    reason: str = "DemandUnknown"
    """One CamelCase word, such as `HostNotAllowed`."""


def stale(said_at: datetime, now: datetime) -> str | None:
    """Why what was said at that moment says nothing of now, in words that follow "it is"; None while it is fresh."""
    apart = int(abs(now - said_at).total_seconds() // 60)
    if now - said_at > FRESH_FOR:
        return f"{apart} min old, and more than {FRESH_FOR.seconds // 60} min are too much: see why it stands still"
    if said_at - now > FRESH_FOR:
        return f"{apart} min ahead of the operator's clock: set the clocks right"
    return None
