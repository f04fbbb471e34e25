"""Decimal USD: per hour, per UTC day, per proof."""

from datetime import UTC, datetime, time, timedelta
from decimal import ROUND_CEILING, Decimal

from fleetagent.domain.resource import Budget

MOST_USD_PER_HOUR = Decimal(1000)
"""No machine costs that: what says so does not know its price."""


def is_price(usd_per_hour: Decimal) -> bool:
    """Whether this can be what a machine costs: a number, more than nothing, not beyond belief."""
    return usd_per_hour.is_finite() and 0 < usd_per_hour <= MOST_USD_PER_HOUR


def over_budget(budget: Budget, usd_per_hour: Decimal, usd_today: Decimal) -> bool:
    """Whether machines of this bill per hour, which cost so much today, cost more than they may."""
    over_day = budget.fleet_usd_per_day is not None and usd_today > budget.fleet_usd_per_day
    return usd_per_hour > budget.fleet_usd_per_hour or over_day


def hours_to_midnight(now: datetime) -> Decimal:
    """Hours until the UTC day ends."""
    tomorrow = datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time.min, tzinfo=UTC)
    return Decimal((tomorrow - now).total_seconds()) / 3600


def usd_per_hour_left(budget: Budget, usd_per_hour: Decimal, usd_today: Decimal, now: datetime) -> Decimal:
    """What one more machine may cost per hour: what the hourly cap leaves, and the daily one if all ran to midnight."""
    most = budget.fleet_usd_per_hour
    if budget.fleet_usd_per_day is not None:
        rest_of_day = budget.fleet_usd_per_day - max(Decimal(0), usd_today)
        most = min(most, rest_of_day / hours_to_midnight(now))
    return most - usd_per_hour


def usd_between(usd_per_hour: Decimal, since: datetime, until: datetime) -> tuple[tuple[datetime, Decimal], ...]:
    """What that time costs, split at UTC midnights: pairs of (a moment in the day, USD)."""
    parts: list[tuple[datetime, Decimal]] = []
    while since < until:
        midnight = datetime.combine(since.astimezone(UTC).date() + timedelta(days=1), time.min, tzinfo=UTC)
        end = min(midnight, until)
        parts.append((since, usd_per_hour * Decimal((end - since).total_seconds()) / 3600))
        since = end
    return tuple(parts)


def min_rate(usd_per_hour: Decimal, usd_per_proof: Decimal | None, min_proofs_per_hour: Decimal) -> int:
    """Whole proofs per hour that a machine of this price must make to be kept; 0 when nothing is asked."""
    if min_proofs_per_hour > 0:
        least = min_proofs_per_hour
    elif usd_per_proof is not None and usd_per_proof > 0:
        least = usd_per_hour / usd_per_proof
    else:
        return 0
    return int(least.to_integral_value(rounding=ROUND_CEILING))


def model_usd(
    input_tokens: int,
    cached_tokens: int,
    output_tokens: int,
    *,
    input_price: Decimal | None,
    cached_price: Decimal | None,
    output_price: Decimal | None,
) -> Decimal:
    """What those tokens cost; prices are USD per million, and the count of input includes the cached ones."""
    cached = min(cached_tokens, input_tokens) if cached_price is not None else 0
    usd = (input_price or Decimal(0)) * (input_tokens - cached) + (cached_price or Decimal(0)) * cached
    return (usd + (output_price or Decimal(0)) * output_tokens) / 1_000_000


def dollars(usd: Decimal) -> str:
    """Two decimals, for people and the model."""
    return f"{usd:.2f}"
