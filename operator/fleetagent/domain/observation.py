"""The facts at the start of a run, and what of them matters: the fingerprint."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetagent.domain.capacity import Capacity, Target, capacity_of
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import Fleet, FleetUnknown
from fleetagent.domain.schedule import Pending, Trigger, Wake


@dataclass(frozen=True, slots=True)
class LaunchProblem:
    """Why no machine could be launched, whatever the guardrails say: something that a person must mend."""

    reason: str
    sentence: str


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

    @property
    def capacity(self) -> Capacity | None:
        """The known fleet's capacity; None while the fleet is unknown."""
        return capacity_of(self.fleet) if isinstance(self.fleet, Fleet) else None

    @property
    def on_target(self) -> bool | None:
        """Whether what proves and what is on its way suffice; None while fleet or demand is unknown."""
        if self.capacity is None or self.target is None:
            return None
        return self.target.met_by(self.capacity)


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

    Rates are rounded to whole proofs per hour and money is left out: both move all the time and decide nothing while
    the phases stand still. Off the target the best acceptable offers belong to it as well.
    """
    if not isinstance(seen.fleet, Fleet) or not isinstance(seen.demand, Demand):
        return None
    if any(i.is_unknown for i in seen.fleet.instances):
        return None
    parts = [
        spec_hash,
        paused,
        seen.demand.active,
        seen.on_target,
        seen.open_alerts,
        seen.launch_problem is None,
        f"{seen.at:%Y-%m-%d}",
        sorted((i.label, i.phase.value, round(i.measured_rate or 0)) for i in seen.fleet.instances),
        list(best_offers),
    ]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()
