"""Every moment at which an agent's schedule called for a run, and whether it got one in time. Pure counting."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from support.soak.plan import TAKEN_OVER_WITHIN


@dataclass(frozen=True, slots=True)
class Slot:
    """One moment of one agent's schedule that was written down as a call for a run."""

    planned_at: datetime
    started_at: datetime | None
    """When the run that served it started; None if no run has."""

    @property
    def late(self) -> timedelta:
        """How much later than planned it was served."""
        return (self.started_at or self.planned_at) - self.planned_at


@dataclass(slots=True)
class Count:
    """What became of all slots of all agents."""

    served: int = 0
    merged: int = 0
    """Passed before the run that served the one before had begun: after a downtime one run follows, never more."""

    lost: int = 0
    twice: int = 0
    drifted: int = 0
    """Off the beat that the agent's first slot began."""

    delays: list[timedelta] = field(default_factory=list)
    late: list[Slot] = field(default_factory=list)
    """Served more than an interval after they were planned, not counting the time that is granted after blows."""

    taken_over: list[Slot] = field(default_factory=list)
    """Served more than an interval late, but for the time that is granted after blows."""


def count(
    agents: Iterable[Sequence[Slot]], interval: timedelta, *, until: datetime, blows: Sequence[datetime]
) -> Count:
    """Go through each agent's slots, in order, up to those planned at `until`."""
    total = Count()
    for slots in agents:
        _count_one(total, slots, interval, until, blows)
    return total


def _count_one(
    total: Count, slots: Sequence[Slot], interval: timedelta, until: datetime, blows: Sequence[datetime]
) -> None:
    times = Counter(slot.planned_at for slot in slots)
    total.twice += sum(n - 1 for n in times.values())
    for slot in slots:
        if slot.planned_at > until:
            continue
        if slot.started_at is None:
            total.lost += 1
            continue
        total.served += 1
        total.delays.append(slot.late)
        if slot.late > interval:
            (total.late if _unexcused(slot, blows) > interval else total.taken_over).append(slot)
    total.drifted += sum((slot.planned_at - slots[0].planned_at) % interval != timedelta(0) for slot in slots)
    ends = [*slots, Slot(max(until, slots[-1].planned_at) + interval, None)]
    for before, after in pairwise(ends):
        at = before.planned_at + interval
        while at < after.planned_at and at <= until:
            if before.started_at is not None and at <= before.started_at:
                total.merged += 1
            else:
                total.lost += 1
            at += interval


def _unexcused(slot: Slot, blows: Sequence[datetime]) -> timedelta:
    """How late it was, without what of that time lies within the grant after a blow."""
    late, reached = slot.late, slot.planned_at
    for at in sorted(blows):
        begin, end = max(reached, at), min(slot.planned_at + slot.late, at + TAKEN_OVER_WITHIN)
        if begin < end:
            late, reached = late - (end - begin), end
    return late
