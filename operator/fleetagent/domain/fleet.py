"""Machines: what the market offers, what it lists, and what our ledger knows of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Literal


class Phase(StrEnum):
    """Where an instance stands; it only moves forward, save that a proving worker may register again."""

    REQUESTED = "requested"
    LOADING = "loading"
    REGISTERED = "registered"
    BENCHMARKING = "benchmarking"
    PROVING = "proving"
    STOPPING = "stopping"
    GONE = "gone"
    FAILED = "failed"


ON_THE_WAY = frozenset({Phase.REQUESTED, Phase.LOADING, Phase.REGISTERED, Phase.BENCHMARKING})
"""Phases whose machines bill and are expected to prove."""

LIVE = frozenset({*ON_THE_WAY, Phase.PROVING, Phase.STOPPING})
"""Phases that may bill: what is gone or failed has been seen to be gone."""

ENDED = (Phase.GONE, Phase.FAILED)
"""All other phases, in the order in which the database's index names them."""


class MarketStatus(StrEnum):
    """What the market says of a machine, in our words; a word we do not know is `UNKNOWN`."""

    LOADING = "loading"  # being provisioned, pulled or started
    RUNNING = "running"
    STOPPED = "stopped"  # exited, stopped or frozen: bills, does nothing
    OFFLINE = "offline"
    UNKNOWN = "unknown"  # no heartbeat, or an unknown word: neither capacity nor a failure yet


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine to rent. Sizes are our share of the host; USD per hour is all-in for the disk we ask for."""

    offer_id: str
    machine_id: str
    gpu_name: str
    num_gpus: int
    gpu_ram_gb: float
    cpu_ram_gb: float
    cpu_cores: float
    disk_gb: float
    download_mbps: float
    cuda_version: str
    reliability: float
    usd_per_hour: Decimal
    verified: bool
    country: str
    measured_rate: float | None = None
    """Proofs per hour that this host, or else hosts like it, were measured at; None while nobody knows."""


@dataclass(frozen=True, slots=True)
class Rented:
    """One machine as a complete listing shows it, ours or not."""

    provider_id: str
    label: str | None
    status: MarketStatus
    status_message: str
    machine_id: str
    gpu_name: str
    num_gpus: int
    cpu_ram_gb: float
    cpu_cores: float
    usd_per_hour: Decimal | None
    worker_url: str | None = field(default=None, repr=False)
    """The worker base URL in its environment, so that a machine found by its label can be adopted."""
    disk_gb: float = 0.0
    storage_usd_per_hour: Decimal | None = None
    """What its disk alone costs, which it does while it is stopped; None when that is not told."""


@dataclass(frozen=True, slots=True)
class Order:
    """What we ask the market to rent; `label` is the only name by which the machine can be found again."""

    offer_id: str
    label: str
    image: str
    disk_gb: int
    env: Mapping[str, str] = field(repr=False)
    onstart: str


@dataclass(frozen=True, slots=True)
class Told:
    """What the agent has been told of a machine, so that each thing is told once, however it comes and goes."""

    usd_per_hour: Decimal | None = None
    """The price that it knows: the first that a list showed, or the last rise."""
    announced_usd_per_hour: Decimal | None = None
    """The price that the host has asked for, while that is pending."""
    status: MarketStatus | None = None
    """`RUNNING`, or how it fell silent; None before it was first up."""
    silent_at: datetime | None = None
    """When it was last told that the machine fell silent."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine in the ledger, from its intent on. Rates are proofs per hour."""

    label: str
    provider_id: str | None
    phase: Phase
    phase_since: datetime
    requested_at: datetime
    machine_id: str
    gpu_name: str
    num_gpus: int
    cpu_ram_gb: float
    cpu_cores: float
    usd_per_hour: Decimal
    expected_rate: float
    measured_rate: float | None = None
    market_status: MarketStatus | None = None
    absent_count: int = 0
    """Complete listings in a row that lacked it."""
    absent_since: datetime | None = None
    confirmed_gone_at: datetime | None = None
    """When the market last said, asked for this one machine, that there is none."""
    destroy_asked_at: datetime | None = None
    failure: str | None = None
    told: Told = Told()
    number: int = 0
    """Which machine of its agent it is, counted from 1 and never given twice; 0 before it is written down."""

    @property
    def alias(self) -> str:
        """A short name for the model and people, the same for as long as the machine is remembered."""
        return f"m{self.number}" if self.number else self.instance_id

    @property
    def instance_id(self) -> str:
        """The name people and the model use: the market's id, or the label while that is not known."""
        return self.provider_id or self.label

    @property
    def is_unknown(self) -> bool:
        """Whether it may or may not exist: asked for, but never seen."""
        return self.phase is Phase.REQUESTED and self.provider_id is None


@dataclass(frozen=True, slots=True)
class Waiting:
    """An action in mode Approve that waits for a person, with the price and the rate that it was wished at."""

    action_id: int
    kind: Literal["launch", "stop"]
    run_id: int
    """The run that wished it."""
    by: str
    intent_key: str
    reason: str
    what: str
    """The machine in a few words of ours: `1x RTX 5090`."""
    usd_per_hour: Decimal
    proofs_per_hour: float
    expires_at: datetime
    offer: Offer | None = None
    """As it was shown; None for a stop."""
    label: str | None = None
    """Of the machine to stop; None for a launch."""
    approved: bool = False
    """A person agreed, and no run has taken it up yet."""

    @property
    def name(self) -> str:
        """The name that people and the model use."""
        return f"action-{self.action_id}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every live instance of one FleetAgent, as a complete listing and the ledger agree at `observed_at`."""

    instances: tuple[Instance, ...]
    observed_at: datetime
    waiting: tuple[Waiting, ...] = ()
    """Actions that wait for a person: no machines yet, but capacity and money that are spoken for."""

    def in_phase(self, *phases: Phase) -> tuple[Instance, ...]:
        """Those that stand in one of these phases."""
        return tuple(i for i in self.instances if i.phase in phases)

    @property
    def usd_per_hour(self) -> Decimal:
        """What all that may bill costs per hour: stopping and unknown machines included."""
        return sum((i.usd_per_hour for i in self.instances), Decimal(0))

    @property
    def launches_waiting(self) -> tuple[Waiting, ...]:
        """Machines that are rented as soon as a person agrees."""
        return tuple(w for w in self.waiting if w.kind == "launch")

    @property
    def committed_usd_per_hour(self) -> Decimal:
        """What all costs per hour once every launch that waits is approved; a stop that waits spares nothing yet."""
        return self.usd_per_hour + sum((w.usd_per_hour for w in self.launches_waiting), Decimal(0))

    @property
    def at_worst(self) -> "Fleet":
        """What a stop has to reckon with: no launch that waits comes, every stop that waits is approved."""
        leaving = {w.label for w in self.waiting if w.kind == "stop"}
        return Fleet(tuple(i for i in self.instances if i.label not in leaving), self.observed_at)

    def without_waiting(self, action_id: int) -> "Fleet":
        """The same, but for this action."""
        return replace(self, waiting=tuple(w for w in self.waiting if w.action_id != action_id))

    def named(self, instance_id: str) -> Instance | None:
        """The live instance with this market id, label or alias."""
        found = (i for i in self.instances if instance_id in (i.provider_id, i.label))
        return next(found, None) or next((i for i in self.instances if i.alias == instance_id.strip().lower()), None)


@dataclass(frozen=True, slots=True)
class FleetUnknown:
    """The listing failed, was partial or contradicts the ledger. Never the same as an empty fleet."""

    because: str
    last_known: Fleet | None = None
    reason: str = "FleetUnknown"
    """The condition's reason, where there is a more telling one."""
