"""A rented machine: who has it, how it stands at a moment, and what it costs."""

from dataclasses import dataclass, field
from typing import Any

from fleetagent.sim.marketplace.fate import Fate
from fleetagent.sim.marketplace.hosts import Host
from fleetagent.sim.marketplace.offers import storage_usd_per_hour
from fleetagent.sim.marketplace.timeline import Timeline
from fleetagent.sim.workers import WorkerLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the create asked for, after it was checked."""

    image: str
    disk_gb: float
    label: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    onstart: str | None = None
    args: tuple[str, ...] = ()
    runtype: str = "args"
    bid_usd_per_hour: float | None = None
    cancel_unavail: bool = False
    wanted: str = "running"


@dataclass(slots=True, kw_only=True)
class Machine:
    """One contract. Market seconds unless the name says wall."""

    id: int
    account_id: int
    host: Host
    order: Order
    fate: Fate
    prices: list[tuple[float, float]]
    """From when on the GPU costs how many USD per hour, as agreed, without storage."""
    label: str | None
    intended: str
    timeline: Timeline
    created_at: float
    """Lies ahead when the create takes effect late."""
    created_wall: float
    contract_end: float
    next_price: tuple[float, float] | None = None
    """What the GPU will cost from when on, as agreed."""
    visible_from_wall: float = 0.0
    label_before: str | None = None
    label_from_wall: float = 0.0
    destroyed_at: float | None = None
    destroyed_wall: float | None = None
    visible_until_wall: float | None = None
    shown_as: dict[str, Any] = field(default_factory=dict)
    """Fields that the listing shows instead of the truth."""
    worker: WorkerLog = field(default_factory=WorkerLog)
    """What the program inside has done so far; only `/_sim/state` shows it."""

    @property
    def live(self) -> bool:
        """Whether the contract still exists, and bills."""
        return self.destroyed_at is None

    @property
    def usd_per_hour(self) -> float:
        """The GPU price as last agreed, without storage."""
        return self.prices[-1][1]

    @property
    def end_wall(self) -> float:
        """When the contract ends, as clients are told: in seconds of their own clock from its begin."""
        return self.created_wall + self.contract_end - self.created_at

    @property
    def disk_usd_per_hour(self) -> float:
        """Storage for the disk that was asked for."""
        return storage_usd_per_hour(self.host, self.order.disk_gb)

    @property
    def all_in_usd_per_hour(self) -> float:
        """GPU and storage."""
        return round(self.usd_per_hour + self.disk_usd_per_hour, 6)

    def status_at(self, market_s: float) -> str | None:
        """`actual_status`, null while it is being provisioned."""
        return self.timeline.at(market_s).status

    def visible(self, *, market_s: float, wall_s: float) -> bool:
        """Whether reads show it: they lag behind create and destroy."""
        if market_s < self.created_at or wall_s < self.visible_from_wall:
            return False
        return self.visible_until_wall is None or wall_s < self.visible_until_wall

    def label_seen(self, wall_s: float) -> str | None:
        """The label that reads show: they lag behind here, too."""
        return self.label if wall_s >= self.label_from_wall else self.label_before

    def usd_in_market_time(self, market_s: float) -> float:
        """The bill so far, if market hours were paid for."""
        until = market_s if self.destroyed_at is None else self.destroyed_at
        return self.timeline.spent(until, gpu_prices=self.prices, disk_usd_per_hour=self.disk_usd_per_hour)

    def usd(self, market_s: float, time_scale: float) -> float:
        """The bill so far by the wall clock, which is how a client counts: market time ÷ scale."""
        return self.usd_in_market_time(market_s) / time_scale
