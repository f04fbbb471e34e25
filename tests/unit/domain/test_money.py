"""Decimal USD: per hour, per UTC day, per proof."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from fleetagent.domain.money import dollars, hours_to_midnight, min_rate, model_usd, usd_between

BERLIN_IN_WINTER = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        (datetime(2026, 11, 29, 18, 0, tzinfo=UTC), Decimal(6)),
        (datetime(2026, 11, 29, 0, 0, tzinfo=UTC), Decimal(24)),
        (datetime(2026, 11, 29, 23, 59, 60 - 36, tzinfo=UTC), Decimal("0.01")),
        (datetime(2026, 11, 30, 0, 30, tzinfo=BERLIN_IN_WINTER), Decimal("0.5")),
    ],
    ids=["evening", "midnight begins a whole day", "the last 36 seconds", "another zone's clock"],
)
def test_the_day_ends_at_midnight_utc(now: datetime, hours: Decimal) -> None:
    assert hours_to_midnight(now) == hours


def test_a_bill_is_split_at_midnight() -> None:
    since, until = datetime(2026, 11, 29, 23, 0, tzinfo=UTC), datetime(2026, 12, 1, 2, 0, tzinfo=UTC)

    parts = usd_between(Decimal("0.60"), since, until)

    assert [(f"{at:%m-%d %H:%M}", usd) for at, usd in parts] == [
        ("11-29 23:00", Decimal("0.60")),
        ("11-30 00:00", Decimal("14.40")),
        ("12-01 00:00", Decimal("1.20")),
    ]


def test_no_time_costs_nothing() -> None:
    at = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

    assert usd_between(Decimal(1), at, at) == ()
    assert usd_between(Decimal(1), at, at - timedelta(hours=1)) == ()


@pytest.mark.parametrize(
    ("usd_per_hour", "usd_per_proof", "least", "rate"),
    [
        ("0.50", "0.008", 0, 63),
        ("0.48", "0.008", 0, 60),
        ("0.50", None, 0, 0),
        ("0.50", "0", 0, 0),
        ("0.50", "0.008", 80, 80),
        ("0.50", "0.008", 10, 10),
        ("0.50", None, "0.9", 1),
        ("0.50", "0.008", "10.1", 11),
    ],
    ids=[
        "rounded up",
        "exactly",
        "nothing asked",
        "a proof that may cost nothing",
        "the spec's own word",
        "even where it asks less",
        "a fraction is rounded up",
        "never down",
    ],
)
def test_a_machine_must_earn_its_price(usd_per_hour: str, usd_per_proof: str | None, least: Any, rate: int) -> None:
    budget = Decimal(usd_per_proof) if usd_per_proof else None

    assert min_rate(Decimal(usd_per_hour), budget, Decimal(least)) == rate


@pytest.mark.parametrize(
    ("tokens", "prices", "usd"),
    [
        ((1_000_000, 0, 0), ("0.40", None, None), "0.40"),
        ((1_000_000, 0, 500_000), ("0.40", None, "1.20"), "1.00"),
        ((1_000_000, 600_000, 0), ("0.40", "0.10", None), "0.22"),
        ((1_000_000, 600_000, 0), ("0.40", None, None), "0.40"),
        ((100_000, 600_000, 0), ("0.40", "0.10", None), "0.01"),
        ((1_000_000, 0, 1_000_000), (None, None, None), "0"),
        ((1_000_000, 0, 1_000_000), (None, None, "1.20"), "1.20"),
    ],
    ids=[
        "input",
        "input and output",
        "cached tokens have their own price",
        "or the price of input",
        "more cached than sent counts as all",
        "no prices",
        "only output has a price",
    ],
)
def test_tokens_cost_what_the_spec_says(
    tokens: tuple[int, int, int], prices: tuple[str | None, str | None, str | None], usd: str
) -> None:
    input_price, cached_price, output_price = (Decimal(p) if p is not None else None for p in prices)

    bill = model_usd(*tokens, input_price=input_price, cached_price=cached_price, output_price=output_price)

    assert bill == Decimal(usd)


def test_people_see_two_decimals() -> None:
    assert [dollars(Decimal(usd)) for usd in ("0", "3.415", "3.425", "1234.5")] == ["0.00", "3.42", "3.42", "1234.50"]
