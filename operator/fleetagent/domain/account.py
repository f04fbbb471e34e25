"""The market's account: whose machines these are, how long its money lasts, which prices are about to rise."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetagent.domain.fleet import MarketStatus, Rented

LEAST_HOURS = Decimal(24)
"""A person must have time to top the account up: without credit the market stops every machine at once."""


@dataclass(frozen=True, slots=True)
class Account:
    """One look at the account. `credit_usd` is None where the market does not say it: unknown, never zero."""

    id: str
    credit_usd: Decimal | None = None
    refused: str | None = None
    """What the market said when it last refused a launch for want of money; None once it takes launches again."""


@dataclass(frozen=True, slots=True)
class PriceRise:
    """A host asks for more. Nobody of us ever accepts it; without that the rental ends at `ends_at`."""

    provider_id: str
    more_usd_per_hour: Decimal
    more_usd_per_gb_hour: Decimal
    """For each GB of its disk."""
    ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class Runway:
    """How long the account's credit lasts at what all its machines cost now, whoever rented them."""

    credit_usd: Decimal | None
    usd_per_hour: Decimal
    refused: str | None = None

    @property
    def hours(self) -> Decimal | None:
        """None while the credit is not known, or nothing bills."""
        if self.credit_usd is None or self.usd_per_hour <= 0:
            return None
        return max(self.credit_usd, Decimal(0)) / self.usd_per_hour

    @property
    def is_low(self) -> bool:
        """Whether a person should top the account up now."""
        if self.refused is not None:
            return True
        spent = self.credit_usd is not None and self.credit_usd <= 0
        return spent or (self.hours is not None and self.hours < LEAST_HOURS)

    @property
    def words(self) -> str:
        """The figures, for people and the model."""
        if self.credit_usd is None:
            return "the market does not say how much credit is left"
        bill = f"at {self.usd_per_hour:.3f} USD/h for all machines of the account"
        lasts = f", which lasts {self.hours:.1f} h {bill}" if self.hours is not None else ", and nothing bills"
        return f"{self.credit_usd:.2f} USD of credit left{lasts}"


def bill(machines: Iterable[Rented]) -> Decimal:
    """USD per hour that these cost now: a stopped one its disk, one that is offline nothing."""
    return sum((_usd_per_hour(machine) for machine in machines), Decimal(0))


def _usd_per_hour(machine: Rented) -> Decimal:
    if machine.status is MarketStatus.OFFLINE:
        return Decimal(0)
    whole = machine.usd_per_hour or Decimal(0)
    if machine.status is not MarketStatus.STOPPED:
        return whole
    return whole if machine.storage_usd_per_hour is None else machine.storage_usd_per_hour
