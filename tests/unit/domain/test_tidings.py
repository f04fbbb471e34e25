"""What a look tells the agent of a machine: each thing once, however the machine or its price flaps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from fleetagent.domain.account import PriceRise
from fleetagent.domain.fleet import Instance, MarketStatus, Phase
from fleetagent.domain.settle import SettleLimits, settle
from support.fleets import NOW, PREFIX, an_instance, as_listed

PROVING = an_instance("1")
LOADING = an_instance("1", Phase.LOADING, market_status=MarketStatus.LOADING)


class Life:
    """One machine, looked at again and again."""

    def __init__(self, machine: Instance) -> None:
        self.machine = machine
        self.now = NOW
        self.told: list[str] = []

    def look(self, after: float = 0.0, rises: dict[str, PriceRise] | None = None, **row: Any) -> list[str]:
        """What this look tells, so many seconds after the last one."""
        self.now += timedelta(seconds=after)
        rented = as_listed(self.machine, **row)
        found = settle([self.machine], [rented], self.now, SettleLimits(), label_prefix=PREFIX, rises=rises)
        said = [c.news for c in found.changes if c.news]
        self.machine = found.changes[0].instance if found.changes else self.machine
        self.told += said
        return said


@pytest.mark.parametrize("silent", [MarketStatus.OFFLINE, MarketStatus.UNKNOWN])
def test_a_machine_that_falls_silent_and_returns_is_told_once_each(silent: MarketStatus) -> None:
    life = Life(PROVING)
    for status in (silent, silent, silent, MarketStatus.RUNNING, MarketStatus.RUNNING):
        life.look(30, status=status)

    assert life.told == [f"machine 1 is {silent.value}", "machine 1 is back"]


def test_a_machine_that_comes_up_is_told_once() -> None:
    life = Life(LOADING)
    for status in (MarketStatus.LOADING, MarketStatus.RUNNING, MarketStatus.RUNNING, MarketStatus.LOADING):
        life.look(30, status=status)
    life.look(30, status=MarketStatus.RUNNING)

    assert life.told == ["machine 1 is online"]


def test_a_machine_that_never_came_up_and_falls_silent_is_no_news() -> None:
    assert Life(LOADING).look(status=MarketStatus.OFFLINE) == []


def test_a_host_that_flaps_every_two_seconds_is_told_of_now_and_then() -> None:
    life = Life(PROVING)
    for look in range(600):  # 20 minutes
        life.look(2, status=(MarketStatus.OFFLINE, MarketStatus.RUNNING)[look % 2])

    assert len(life.told) == 4
    assert life.told[:2] == ["machine 1 is offline", "machine 1 is back"]


def test_a_silence_that_was_not_told_because_of_an_earlier_one_is_told_when_it_lasts() -> None:
    life = Life(PROVING)
    life.look(status=MarketStatus.OFFLINE)
    life.look(30, status=MarketStatus.RUNNING)
    assert life.look(30, status=MarketStatus.OFFLINE) == []

    assert life.look(600, status=MarketStatus.OFFLINE) == ["machine 1 is offline"]
    assert life.look(3600, status=MarketStatus.OFFLINE) == []


@pytest.mark.parametrize(
    ("prices", "told"),
    [
        (["0.50", "0.535"], []),
        (["0.536"], ["machine 1 costs more: price raised from 0.5000 to 0.5360 USD/h"]),
        (["0.60", "0.60", "0.50", "0.60"], ["machine 1 costs more: price raised from 0.5000 to 0.6000 USD/h"]),
        (["0.52", "0.54"], ["machine 1 costs more: price raised from 0.5000 to 0.5400 USD/h"]),
        ([None, "0.50"], []),
        (["0.30", "0.50"], []),
    ],
    ids=["within rounding", "just above it", "to and fro", "in small steps", "not told", "falls and rises again"],
)
def test_a_price_that_rises_is_told_once_in_numbers(prices: list[str | None], told: list[str]) -> None:
    life = Life(PROVING)
    for price in prices:
        life.look(30, usd_per_hour=price)

    assert life.told == told


def test_a_price_that_was_not_told_at_first_is_checked_when_it_is() -> None:
    life = Life(an_instance("1", Phase.REQUESTED, market_status=None))
    life.look(status=MarketStatus.LOADING, usd_per_hour=None)
    rented = as_listed(life.machine, usd_per_hour="5.00")

    (doomed,) = settle([life.machine], [rented], NOW, SettleLimits(), label_prefix=PREFIX).doomed

    assert doomed.because == "it costs 5.0000 USD/h, ordered at 0.5000"


RISE = PriceRise("1", Decimal("0.10"), Decimal("0.0002"), datetime(2026, 12, 3, 8, 30, tzinfo=UTC))


def test_a_price_that_is_asked_for_is_told_once_and_again_when_it_is_another() -> None:
    life = Life(PROVING)
    first = life.look(rises={"1": RISE}, disk_gb=250.0)
    life.look(30, rises={"1": RISE}, disk_gb=250.0)
    life.look(30, rises=None, disk_gb=250.0)
    second = life.look(30, rises={"1": replace(RISE, more_usd_per_hour=Decimal("0.30"))}, disk_gb=250.0)

    words = "machine 1 is to cost 0.6500 instead of 0.5000 USD/h: its host asks for it, and else ends it on "
    assert first == [f"{words}2026-12-03 08:30 UTC"]
    assert life.told == [*first, *second]
    assert second[0].startswith("machine 1 is to cost 0.8500")
    life.look(30, rises={})
    assert life.machine.told.announced_usd_per_hour is None


def test_a_price_that_is_asked_for_another_machine_is_no_news() -> None:
    assert Life(PROVING).look(rises={"2": RISE}) == []


def test_nothing_is_told_of_a_machine_that_stops() -> None:
    life = Life(an_instance("1", Phase.STOPPING))

    assert life.look(status=MarketStatus.OFFLINE, usd_per_hour="9.00", rises={"1": RISE}) == []
