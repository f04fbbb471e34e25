"""The facts at the start of a run, and what of them matters: the fingerprint."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from fleetagent.domain.account import Runway
from fleetagent.domain.capacity import Capacity, Target, capacity, capacity_of
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import ON_THE_WAY, Fleet, FleetUnknown, Phase
from fleetagent.domain.schedule import Pending, Trigger, Wake


@dataclass(frozen=True, slots=True)
class LaunchProblem:
    """Why no machine could be launched, whatever the guardrails say: something that a person must mend."""

    reason: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that a person should do something about; people name it `alert-<id>`."""

    id: int
    code: str
    severity: str
    message: str
    run_id: int = 0
    """The run that raised it; 0: code did, between runs."""


ALERTS_SHOWN = 5
"""How many of the open alerts the model is told with their words."""


class Standing(StrEnum):
    """Where the fleet stands, by what proves and what is on its way."""

    BELOW = "below target"
    ON = "on target"
    ABOVE = "above target"  # a machine could go, and the whole target would still be met


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known at one moment: the fleet (complete or unknown), the demand, the money, what called for the run."""

    at: datetime
    fleet: Fleet | FleetUnknown
    demand: Demand | DemandUnknown
    target: Target | None
    usd_spent_today: Decimal
    open_alerts: int
    launch_problem: LaunchProblem | None = None
    alerts: tuple[Alert, ...] = ()
    """The newest of the open ones."""
    runway: Runway | None = None
    """How long the account's credit lasts; None while the account cannot be read."""
    decided: tuple[str, ...] = ()
    """What became of actions that waited for a person, as far as the agent was not told yet."""

    capacity: Capacity | None = field(init=False)
    """The known fleet's capacity, counted once; None while the fleet is unknown."""

    def __post_init__(self) -> None:
        counted = capacity_of(self.fleet) if isinstance(self.fleet, Fleet) else None
        object.__setattr__(self, "capacity", counted)

    @property
    def on_target(self) -> bool | None:
        """Whether what proves and what is on its way suffice; None while fleet or demand is unknown."""
        if self.capacity is None or self.target is None:
            return None
        return self.target.met_by(self.capacity)

    @property
    def standing(self) -> Standing | None:
        """Below, on or above the effective target; None while fleet or demand is unknown."""
        cap, target = self.capacity, self.target
        if cap is None or target is None or not isinstance(self.fleet, Fleet):
            return None
        if not target.met_by(cap):
            return Standing.BELOW
        worst = self.fleet.at_worst
        cap = capacity_of(worst)
        smallest = min(map(capacity, worst.in_phase(Phase.PROVING, *ON_THE_WAY)), default=0.0)
        could_go = round(cap.projected_proofs_per_hour - smallest, 1) >= target.proofs_per_hour
        return Standing.ABOVE if could_go and cap.lasting > target.min_instances else Standing.ON


@dataclass(frozen=True, slots=True)
class Calls:
    """What a run was called for, as the claim found it."""

    kinds: tuple[Trigger, ...]
    pending: tuple[Pending, ...] = ()
    wakes: tuple[Wake, ...] = ()


def fingerprint(
    seen: Observation, spec_hash: str, best_offers: Sequence[str] = (), *, paused: bool = False
) -> str | None:
    """A digest of all that could change the model's mind; None when something is unknown: that is never unchanged.

    Rates are rounded to whole proofs per hour; money and the queue are left out: they move all the time and decide
    nothing while the phases stand still. Below the target the best acceptable offers belong to it as well.
    """
    if not isinstance(seen.fleet, Fleet) or not isinstance(seen.demand, Demand):
        return None
    if any(i.is_unknown for i in seen.fleet.instances):
        return None
    parts = [
        spec_hash,
        paused,
        seen.demand.active,
        seen.standing,
        seen.open_alerts,
        [a.id for a in seen.alerts],
        seen.launch_problem and seen.launch_problem.reason,
        f"{seen.at:%Y-%m-%d}",
        sorted((i.label, i.phase.value, round(capacity(i))) for i in seen.fleet.instances),
        [w.action_id for w in seen.fleet.waiting],
        list(best_offers),
    ]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()
