"""What a soak does and when: how many agents for how long, and the blows that replicas get, drawn from a seed."""

import random
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

TAKEN_OVER_WITHIN = timedelta(seconds=30)
"""How long after a blow the other replica may need."""

SHORTEST_FREEZE_S, LONGEST_FREEZE_S = 3.0, 25.0
"""Shorter and longer than a lease and than the life of a peering record."""


class Blow(StrEnum):
    """What happens to a replica."""

    KILL = "SIGKILL"
    END = "SIGTERM"
    FREEZE = "SIGSTOP, SIGCONT"


@dataclass(frozen=True, slots=True)
class Planned:
    """One blow: so many seconds after the start, to this replica."""

    after_s: float
    blow: Blow
    replica: int
    frozen_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a soak."""

    agents: int
    """Those that keep their beat; their runs are what is counted."""

    restless: int
    """More agents, whose targets change and whose runs are asked for all the time: they rent and end machines."""

    interval_s: int = 10
    rounds: int
    blows: int
    seed: int = 1

    calm: float = 0.25
    """The part at the end in which no replica gets a blow: there the memory of one process is watched."""

    @property
    def lasts_s(self) -> int:
        """From the first run of the last agent on."""
        return self.interval_s * self.rounds

    @property
    def interval(self) -> timedelta:
        """Between two runs of one agent."""
        return timedelta(seconds=self.interval_s)

    def drawn(self) -> tuple[Planned, ...]:
        """The blows in order: at random moments, far enough apart that each has most of its own time to be got over."""
        chance = random.Random(self.seed)  # noqa: S311  # the same seed, the same soak
        window = self.lasts_s * (1 - self.calm)
        apart = 0.8 * window / max(1, self.blows)
        moments = sorted(chance.uniform(0, window - apart * self.blows) for _ in range(self.blows))
        kinds = chance.sample(tuple(Blow) * self.blows, self.blows) if self.blows > len(Blow) else tuple(Blow)
        return tuple(
            Planned(
                moment + apart * (number + 0.5),
                blow,
                chance.randrange(2),
                chance.uniform(SHORTEST_FREEZE_S, LONGEST_FREEZE_S) if blow is Blow.FREEZE else 0.0,
            )
            for number, (moment, blow) in enumerate(zip(moments, kinds, strict=False))
        )
