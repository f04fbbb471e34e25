"""What is on a hostile market: its clock, its machines, what it does wrong, and who watches at its door."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from fleetagent.domain.fleet import MarketStatus, Offer, Order, Rented

START = datetime.fromisoformat("2026-11-29T21:00:00+00:00")
GPUS = ("RTX 3090", "RTX 4090", "RTX 5090", "RTX 5070 Ti")
CREATES = ("fine", "later", "denied", "unclear: no", "unclear: yes", "unclear: named", "late", "lags")
LISTINGS = ("fine", "unreadable", "empty", "lacks one", "other account")
DESTROYS = ("fine", "fails", "unclear", "lags")
OFFERS_AT_LEAST = 12


@dataclass
class Clock:
    """The time of one world; only a test moves it."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Machine:
    """What the market knows of a machine, and the truth that no listing shows."""

    provider_id: str
    label: str | None
    owner: str
    """Whose order made it; `hand` for what a person made in the market's console."""
    offer: Offer
    usd_per_hour: Decimal | None
    created_at: datetime
    visible_at: datetime
    worker_token: str | None = None
    status: MarketStatus = MarketStatus.LOADING
    message: str = ""
    gone_at: datetime | None = None
    delisted_at: datetime | None = None
    denied_once: bool = False
    """Asked for by its id, the market said once that there is none; the truth from then on."""
    seen: bool = False
    """A list has shown it to its agent: by then the id says whose it is, and no more the label."""
    ending: bool = False
    """Its agent has asked for its end, or written down that it will."""
    steps: int = 0
    """How far its worker has come: 0 nothing, 1 registered, 2 parameters, 3 benchmarked."""
    rate: float | None = None
    """What its worker reported, if that passed."""

    def listed(self, now: datetime) -> bool:
        """Whether a truthful list shows it."""
        return self.visible_at <= now and (self.delisted_at is None or now < self.delisted_at)

    def row(self) -> Rented:
        """As a listing shows it."""
        offer = self.offer
        return Rented(
            provider_id=self.provider_id,
            label=self.label,
            status=self.status,
            status_message=self.message,
            machine_id=offer.machine_id,
            gpu_name=offer.gpu_name,
            num_gpus=offer.num_gpus,
            cpu_ram_gb=offer.cpu_ram_gb,
            cpu_cores=offer.cpu_cores,
            usd_per_hour=self.usd_per_hour,
            worker_url=f"http://workers.test/workers/{self.worker_token}" if self.worker_token else None,
        )


class Auditor(Protocol):
    """Watches at the market's door."""

    def ordered(self, agent: str, order: Order, offer: Offer, *, machine: Machine | None, clear: bool) -> None:
        """An order has arrived; `machine` when it took effect, `clear` when the answer says so."""

    def destroying(self, agent: str, machine: Machine) -> None:
        """A destroy for this living machine has arrived."""

    def told(self, agent: str, machines: list[Machine]) -> None:
        """A list with these machines was given out."""


@dataclass
class Faults:
    """What the market does wrong from now on."""

    listing: str = "fine"
    create: str = "fine"
    destroy: str = "fine"
    search: str = "fine"
    hidden: str | None = None
    """The machine that a list `lacks one` leaves out."""
