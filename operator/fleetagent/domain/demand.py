"""Whether there are proofs to make, as some source says; a source that fails is unknown, not zero."""

from dataclasses import dataclass


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
