"""A machine's phases as bars: how long it took to get to work, and how long it worked."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fleetagent.domain.fleet import ENDED
from fleetagent.domain.views import MachineView, PhaseAt

WIDTH: Final = 240.0
LEAST: Final = 4.0
"""A phase that took a moment must be seen, too."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One phase, and where it stands in a drawing of `WIDTH`."""

    phase: str
    at: datetime
    seconds: float
    x: float
    width: float
    lasts: bool
    """Whether the machine is in this phase now."""


def timeline(machine: MachineView, now: datetime) -> tuple[Bar, ...]:
    """Each phase as wide as it took its share of the machine's time, but none too narrow to be seen.

    What it came to in the end is a moment, and no bar.
    """
    begun = sorted(machine.timeline, key=lambda p: p.at) or [PhaseAt(phase=machine.phase, at=machine.phase_since)]
    ended = (machine.gone_at or machine.phase_since) if machine.phase in ENDED else None
    ends = [*(p.at for p in begun[1:]), ended or now]
    took = [
        (p, max((until - p.at).total_seconds(), 0.0))
        for p, until in zip(begun, ends, strict=True)
        if p.phase not in ENDED
    ]
    bars, x = [], 0.0
    for place, ((phase, seconds), width) in enumerate(zip(took, _widths([s for _, s in took]), strict=True)):
        lasts = ended is None and place == len(took) - 1
        bars.append(Bar(phase.phase, phase.at, seconds, round(x, 1), round(width, 1), lasts))
        x += width
    return tuple(bars)


def _widths(seconds: list[float]) -> list[float]:
    """Shares of the drawing; what the narrow ones are given is taken from the others in proportion."""
    total = sum(seconds)
    if total <= 0:
        return [WIDTH / len(seconds)] * len(seconds) if seconds else []
    narrow = {place for place, each in enumerate(seconds) if each / total * WIDTH < LEAST}
    rest = sum(each for place, each in enumerate(seconds) if place not in narrow)
    room = WIDTH - LEAST * len(narrow)
    return [LEAST if place in narrow else each / rest * room for place, each in enumerate(seconds)]
