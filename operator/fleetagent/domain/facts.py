"""What a guardrail is told: read just before the effect, frozen, complete."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from fleetagent.domain.capacity import Capacity, Target, capacity_of
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import Fleet, FleetUnknown, Offer
from fleetagent.domain.resource import FleetAgentSpec

MODEL = "model"
CONTROLLER = "controller"
"""Who decides while the model cannot, where the spec says so."""
PERSON = "person"
"""Who wishes what was approved: limits on what the model may wish by itself do not hold it back."""
LIFECYCLE = "lifecycle"
"""Code that ends what must end; it asks no rule."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The wish to rent one machine: the offer as it was named, and who wishes it."""

    offer_id: str
    reason: str
    by: str = MODEL


@dataclass(frozen=True, slots=True)
class Stop:
    """The wish to destroy one machine of ours, and who wishes it."""

    instance_id: str
    reason: str
    by: str = MODEL


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action does not happen: a code for machines, a sentence for people and the model."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The world just before an effect. `offers_shown` are this run's offers as the model saw them."""

    now: datetime
    spec: FleetAgentSpec
    fleet: Fleet | FleetUnknown
    demand: Demand | DemandUnknown
    target: Target | None
    """None while demand is unknown."""
    offers_shown: Mapping[str, Offer]
    offer_now: Offer | None
    """The offer that the action names, fetched afresh; None when it is gone."""
    hosts_excluded: Mapping[str, datetime]
    """Machine ids that failed lately, and until when they are left out."""
    launches_this_run: int
    launches_last_hour: int
    stops_this_run: int
    usd_spent_today: Decimal
    installation_stop: str | None
    workers_can_report: bool

    model_tokens_today: int = 0
    capacity: Capacity | None = field(init=False)
    """The known fleet's capacity, counted once; None while the fleet is unknown."""

    def __post_init__(self) -> None:
        counted = capacity_of(self.fleet) if isinstance(self.fleet, Fleet) else None
        object.__setattr__(self, "capacity", counted)
