"""What an auditor knows of each agent: what it is allowed, what it was told, what it did."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from fleetagent.domain.resource import FleetAgentSpec
from support.hostile.stock import Machine

SETTLING = timedelta(minutes=5)
"""For so long an order whose outcome is not clear counts as a machine."""


@dataclass
class Client:
    """What the auditor knows of one agent: what it is allowed, and what it did."""

    name: str
    prefix: str
    spec: FleetAgentSpec
    demand: bool | None = True
    """None while its source fails."""
    stopped: bool = False
    """Whether the whole installation is."""
    run_id: int = 0
    shown: dict[str, Decimal] = field(default_factory=dict)
    """Offers that answers of this run have named, and at which price."""
    ever_shown: dict[str, Decimal] = field(default_factory=dict)
    failed_hosts: dict[str, datetime] = field(default_factory=dict)
    """Hosts whose machine code gave up, and when."""
    taking_up: bool = False
    """Whether actions that a person approved are being taken up."""
    approvals: int = 0
    """How many actions a person has approved, and that were not taken up yet."""
    owns: bool = True
    """Whether the run that goes on still holds the lease."""
    orders: list["Ordered"] = field(default_factory=list)
    rates: dict[tuple[str, str, int], float] = field(default_factory=dict)
    """The best that hosts were measured at."""

    def see(self, offers: dict[str, Decimal]) -> None:
        """An answer has shown these."""
        self.shown |= offers
        self.ever_shown |= offers


@dataclass
class Ordered:
    """One order as it reached the market."""

    at: datetime
    run_id: int
    label: str
    usd_per_hour: Decimal
    machine: Machine | None
    certain: bool
    """The agent knows that it took effect: by the answer, or since a list has shown it."""

    def counts(self, now: datetime) -> bool:
        """For certain, or as an unknown intent that is not settled yet."""
        return self.certain or now - self.at < SETTLING


@dataclass
class Told:
    """What an agent was told of one machine: since when, and each price from when on."""

    machine: Machine
    prices: list[tuple[datetime, Decimal]]

    def usd_between(self, since: datetime, until: datetime) -> Decimal:
        end = min(until, self.machine.gone_at or until)
        usd, later = Decimal(0), [at for at, _ in self.prices[1:]]
        for (at, price), to in zip(self.prices, [*later, end], strict=True):
            hours = Decimal((min(to, end) - max(at, since)).total_seconds()) / 3600
            usd += price * max(hours, Decimal(0))
        return usd
