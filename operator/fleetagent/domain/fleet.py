"""Machines: what the market offers, what it lists, and what our ledger knows of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum


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
    """Proofs per hour that this host with these GPUs made for us before; None when we never had it."""


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

    @property
    def instance_id(self) -> str:
        """The name people and the model use: the market's id, or the label while that is not known."""
        return self.provider_id or self.label

    @property
    def is_unknown(self) -> bool:
        """Whether it may or may not exist: asked for, but never seen."""
        return self.phase is Phase.REQUESTED and self.provider_id is None


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every live instance of one FleetAgent, as a complete listing and the ledger agree at `observed_at`."""

    instances: tuple[Instance, ...]
    observed_at: datetime

    def in_phase(self, *phases: Phase) -> tuple[Instance, ...]:
        """Those that stand in one of these phases."""
        return tuple(i for i in self.instances if i.phase in phases)

    @property
    def usd_per_hour(self) -> Decimal:
        """What all that may bill costs per hour: stopping and unknown machines included."""
        return sum((i.usd_per_hour for i in self.instances), Decimal(0))

    def named(self, instance_id: str) -> Instance | None:
        """The live instance with this market id or label."""
        return next((i for i in self.instances if instance_id in {i.provider_id, i.label}), None)


@dataclass(frozen=True, slots=True)
class FleetUnknown:
    """The listing failed, was partial or contradicts the ledger. Never the same as an empty fleet."""

    because: str
    last_known: Fleet | None = None
    reason: str = "FleetUnknown"
    """The condition's reason, where there is a more telling one."""
