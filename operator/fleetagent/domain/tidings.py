"""What a look at one machine tells the agent: each thing once, and a machine that comes and goes now and then only."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from fleetagent.domain.account import PriceRise
from fleetagent.domain.fleet import ON_THE_WAY, Instance, MarketStatus, Phase, Rented, Told

DEARER = Decimal("1.05"), Decimal("0.01")
"""Factor and USD per hour by which a bill may differ from a price that is known: prices are rounded and drift."""

SILENCE_TOLD_EVERY = timedelta(minutes=10)
"""Each telling is a run of the model: a host that flaps every few seconds must not buy hundreds of them."""

SILENT = frozenset({MarketStatus.OFFLINE, MarketStatus.UNKNOWN})


def dearer(usd_per_hour: Decimal, known: Decimal) -> bool:
    """Whether it costs clearly more than the price that is known."""
    factor, more = DEARER
    return usd_per_hour > known * factor + more


def tidings(
    old: Instance, new: Instance, rented: Rented, now: datetime, rises: Mapping[str, PriceRise] | None
) -> tuple[Told, str | None]:
    """What the agent will have been told afterwards, and the words for it, if there is anything to tell."""
    told, price = _price(old.told, rented)
    told, status = _status(told, old, rented, now)
    told, rise = _announced(told, new, rented, rises) if rises is not None else (told, None)
    words = "; ".join(said for said in (status, price, rise) if said)
    return told, f"machine {rented.provider_id} {words}" if words else None


def _price(told: Told, rented: Rented) -> tuple[Told, str | None]:
    """Compared with the last price that was told, so that neither small steps nor a price to and fro deceive."""
    price, known = rented.usd_per_hour, told.usd_per_hour
    if price is None or (known is not None and not dearer(price, known)):
        return told, None
    words = f"costs more: price raised from {known:.4f} to {price:.4f} USD/h" if known is not None else None
    return replace(told, usd_per_hour=price), words


def _status(told: Told, old: Instance, rented: Rented, now: datetime) -> tuple[Told, str | None]:
    was = told.status or (MarketStatus.RUNNING if old.phase is Phase.PROVING else None)
    status = rented.status
    if status is MarketStatus.RUNNING and was is None and old.phase in ON_THE_WAY:
        # what has been up before without our telling it is no news now
        return replace(told, status=status), "is online" if old.market_status is not status else None
    if status is MarketStatus.RUNNING and was in SILENT:
        return replace(told, status=status), "is back"
    if status in SILENT and was is MarketStatus.RUNNING:
        if told.silent_at is not None and now - told.silent_at < SILENCE_TOLD_EVERY:
            return told, None
        return replace(told, status=status, silent_at=now), f"is {status.value}"
    return told, None


def _announced(told: Told, new: Instance, rented: Rented, rises: Mapping[str, PriceRise]) -> tuple[Told, str | None]:
    if (rise := rises.get(rented.provider_id)) is None:
        return told if told.announced_usd_per_hour is None else replace(told, announced_usd_per_hour=None), None
    more = rise.more_usd_per_hour + rise.more_usd_per_gb_hour * Decimal(str(rented.disk_gb))
    price, known = new.usd_per_hour + more, told.announced_usd_per_hour
    if more <= 0 or (known is not None and not dearer(price, known)):
        return told, None
    until = f", and else ends it on {rise.ends_at:%Y-%m-%d %H:%M} UTC" if rise.ends_at is not None else ""
    words = f"is to cost {price:.4f} instead of {new.usd_per_hour:.4f} USD/h: its host asks for it{until}"
    return replace(told, announced_usd_per_hour=price), words
