"""What comes of comparing the ledger with a list: what to write, to ask, to end."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from fleetagent.domain.fleet import Fleet, FleetUnknown, Instance, Phase, Rented

READ_LAG = timedelta(minutes=2)

NEVER_APPEARED = "never appeared on the market"
"""How a launch failed of which no list ever showed a machine."""


@dataclass(frozen=True, slots=True)
class SettleLimits:
    """How long to wait before absence means something, how long a phase may last, what may be adopted."""

    settling: timedelta = timedelta(minutes=5)
    confirm_gone: timedelta = timedelta(minutes=1)
    phases: Mapping[Phase, timedelta] | None = None
    max_instances: int | None = None
    fleet_usd_per_hour: Decimal | None = None
    fleet_usd_per_day: Decimal | None = None
    usd_spent_today: Decimal = Decimal(0)
    hosts_excluded: Collection[str] = ()
    out_of_credit: bool = False
    """The market stops every machine then, which says nothing about their hosts."""

    @property
    def read_lag(self) -> timedelta:
        """How long reads may lag behind a create."""
        return min(READ_LAG, self.settling)


@dataclass(frozen=True, slots=True)
class Change:
    """One row to write: the instance as it is now. `adopted` when the ledger did not know this machine of ours."""

    instance: Instance
    news: str | None = None
    """What the agent is told of it: a fleet event. None when it is no news."""
    adopted: Rented | None = None
    never_appeared: bool = False


@dataclass(frozen=True, slots=True)
class Doomed:
    """A machine that code ends, whatever the model says."""

    instance: Instance
    because: str
    host_failed: bool

    @property
    def news(self) -> str:
        """What the agent is told of it: a fleet event."""
        return f"machine {self.instance.instance_id} was given up: {self.because}"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What to write, what to ask, what to end; and the fleet as it is known afterwards."""

    changes: tuple[Change, ...]
    ask: tuple[Instance, ...]
    doomed: tuple[Doomed, ...]
    destroy_again: tuple[Instance, ...]
    fleet: Fleet | FleetUnknown
