"""What the worker endpoint answers, and how much of what a worker claims is counted."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetagent.domain.capacity import FURTHER_GPU
from fleetagent.domain.fleet import Phase
from fleetagent.domain.rates import MOST_GPUS
from fleetagent.domain.records import AgentKey

FASTEST_GPU = 200.0
"""Proofs per hour of the fastest GPU that was ever measured, on a host that keeps it fed: 18 s for one."""

LIVES, SHARE_PROVED = 4, 0.25
"""A worker that proved so often, and for less than this share of the time, will not do better."""
LEAST_TO_JUDGE = timedelta(minutes=30)
"""Less says nothing: a host that begins again some times within minutes costs little."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A worker that is known from now on, by the same pair each time it registers."""

    uuid: str
    runner_id: int
    agent: AgentKey
    changed: bool = True
    """Whether the machine is in another state than before."""


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """How a call was taken. `passed` speaks of the benchmark."""

    agent: AgentKey
    ok: bool
    passed: bool
    changed: bool = False
    """Whether the machine is in another state than before."""
    counted_rate: float | None = None
    """What is counted of the rate that was claimed, where it is less."""


def plausible_rate(num_gpus: int) -> float:
    """The most proofs per hour that are counted of what a machine claims: its owner may gain by claiming more.

    What such a host is expected to make is no bound: that table is coarse, and a good host must not be called a liar.
    """
    return round(FASTEST_GPU * (1 + FURTHER_GPU * (min(max(1, num_gpus), MOST_GPUS) - 1)), 1)


def hardly_proves(timeline: Sequence[tuple[str, datetime]], now: datetime) -> str | None:
    """Why a machine whose worker begins again is given up, or None.

    Each beginning has the whole time of its phases again: a prover that crashes in a loop would be paid without end.
    """
    spans = [(phase, until - since) for (phase, since), (_, until) in itertools.pairwise([*timeline, ("", now)])]
    proving = [place for place, (phase, _) in enumerate(spans) if phase == Phase.PROVING]
    if len(proving) < LIVES:
        return None
    first = proving[-LIVES - 1] + 1 if len(proving) > LIVES else _registered_first(spans)
    whole = sum((span for _, span in spans[first:]), timedelta())
    proved = sum((span for phase, span in spans[first:] if phase == Phase.PROVING), timedelta())
    if whole < LEAST_TO_JUDGE or proved >= SHARE_PROVED * whole:
        return None
    minutes = [round(span.total_seconds() / 60) for span in (proved, whole)]
    return f"its worker began again {LIVES} times and proved for {minutes[0]} of {minutes[1]} min"


def _registered_first(spans: Sequence[tuple[str, timedelta]]) -> int:
    return next((place for place, (phase, _) in enumerate(spans) if phase == Phase.REGISTERED), 0)
