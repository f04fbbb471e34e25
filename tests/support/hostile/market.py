"""A market that keeps the promises of `ports.Market` and no others, in process, on a clock that a test moves.

Offers go and grow dearer, creates are unclear or late, reads lag, machines fail, the list breaks. An auditor sees each
order and each destroy at the moment it arrives.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from fleetagent.domain.account import Account, PriceRise
from fleetagent.domain.fleet import Offer, Order, Rented
from fleetagent.domain.offers import why_not
from fleetagent.domain.resource import OfferFilter
from fleetagent.errors import Denied, FleetUnreadable, TryLater, Unclear
from fleetagent.ports.world import MayBegin, at_once
from support.hostile.stock import GPUS, OFFERS_AT_LEAST, Auditor, Clock, Faults, Machine


@dataclass
class HostileMarket:
    """One account's market."""

    clock: Clock
    chance: random.Random
    auditor: Auditor
    offers: dict[str, Offer] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    next_id: int = 33_000_000
    credit_usd: Decimal | None = Decimal(500)
    buyer: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.restock()

    def new_id(self) -> str:
        self.next_id += self.chance.randint(1, 9)
        return str(self.next_id)

    def restock(self) -> None:
        """Some offers come; a few of them on hosts that are known already."""
        while len(self.offers) < OFFERS_AT_LEAST:
            offer = self.an_offer()
            self.offers[offer.offer_id] = offer

    def an_offer(self, **changes: Any) -> Offer:
        """What somebody lets; most pass the usual filter."""
        pick = self.chance.choice
        offer = Offer(
            offer_id=self.new_id(),
            machine_id=str(self.chance.randint(1, 40)),
            gpu_name=pick(GPUS),
            num_gpus=pick((1, 1, 1, 2)),
            gpu_ram_gb=pick((24.0, 32.0, 24.0, 8.0)),
            cpu_ram_gb=pick((256.0, 384.0, 512.0, 768.0, 64.0)),
            cpu_cores=pick((32.0, 48.0, 64.0)),
            disk_gb=900.0,
            download_mbps=800.0,
            cuda_version=pick(("13.0", "13.1", "12.4")),
            reliability=pick((0.99, 0.98, 0.9)),
            usd_per_hour=Decimal(self.chance.randint(15, 110)) / 100,
            verified=pick((True, True, True, False)),
            country=pick(("DE", "BG", "US")),
        )
        return replace(offer, **changes)

    def alive(self) -> list[Machine]:
        """Every machine that there is."""
        return [m for m in self.machines.values() if m.gone_at is None]

    def rent(self, owner: str, label: str | None, offer: Offer, **changes: Any) -> Machine:
        """A new machine, whoever wants it."""
        now = self.clock.now
        usual: dict[str, Any] = {"usd_per_hour": offer.usd_per_hour, "created_at": now, "visible_at": now}
        machine = Machine(self.new_id(), label, owner, offer, **(usual | changes))
        self.machines[machine.provider_id] = machine
        if self.chance.random() < 0.8:  # else it goes on offering what it has let
            self.offers.pop(offer.offer_id, None)
        return machine

    def end(self, machine: Machine, lag: timedelta = timedelta(0)) -> None:
        """It is no more; lists may show it for a while."""
        machine.gone_at = self.clock.now
        machine.delisted_at = self.clock.now + lag

    def seen_from(self, agent: str) -> "View":
        """The port that one agent uses."""
        return View(self, agent)


@dataclass(frozen=True)
class View:
    """Implements `ports.Market` for one agent of the account."""

    market: HostileMarket
    agent: str

    async def account(self) -> Account:
        return Account("8" if self.market.faults.listing == "other account" else "7", self.market.credit_usd)

    async def price_rises(self) -> tuple[PriceRise, ...] | None:
        return None

    @asynccontextmanager
    async def buying(self) -> AsyncIterator[None]:
        async with self.market.buyer:
            yield

    async def offers(self, wanted: OfferFilter, disk_gb: int) -> tuple[Offer, ...]:
        await self._answer()
        good = [o for o in self.market.offers.values() if why_not(o, wanted, disk_gb) is None]
        return tuple(sorted(good, key=lambda o: (o.usd_per_hour, o.offer_id)))

    async def offer(self, offer_id: str, disk_gb: int) -> Offer | None:
        del disk_gb
        await self._answer()
        return self.market.offers.get(offer_id)

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self.market.faults.search == "fails":
            raise TryLater("the market's search answered 429")

    async def machines(self) -> tuple[Rented, ...]:
        await asyncio.sleep(0)
        market, now = self.market, self.market.clock.now
        match market.faults.listing:
            case "unreadable":
                raise FleetUnreadable("the list of machines can't be read: 410 deprecated_endpoint")
            case "empty" | "other account":
                return ()
            case listing:
                left_out = market.faults.hidden if listing == "lacks one" else None
        shown = [m for m in market.machines.values() if m.listed(now) and m.provider_id != left_out]
        market.auditor.told(self.agent, shown)
        return tuple(m.row() for m in shown)

    async def machine(self, provider_id: str) -> Rented | None:
        await asyncio.sleep(0)
        found = self.market.machines.get(provider_id)
        if self.market.faults.listing in {"unreadable", "other account"}:
            raise TryLater("the market does not answer")
        if found is None or found.gone_at is not None:
            return None
        if not found.denied_once and self.market.chance.random() < 0.2:
            found.denied_once = True
            return None
        return found.row()

    async def launch(self, order: Order, may_begin: MayBegin = at_once) -> str:
        await asyncio.sleep(0)
        await may_begin()
        market, how = self.market, self.market.faults.create
        if how == "later":
            raise TryLater("the market answered 429")
        offer = market.offers.get(order.offer_id)
        if offer is None or how == "denied":
            raise Denied("OfferGone", "no_such_ask")
        if how == "unclear: no":
            market.auditor.ordered(self.agent, order, offer, machine=None, clear=False)
            raise Unclear("the market answered 504")
        token = next(iter(order.env.values())).rpartition("/")[2]
        machine = market.rent(self.agent, order.label, offer, worker_token=token)
        if how in {"late", "lags"}:
            longest_s = 1200 if how == "late" else 110
            machine.visible_at += timedelta(seconds=market.chance.randint(1, longest_s))
        clear = how in {"fine", "lags"}
        market.auditor.ordered(self.agent, order, offer, machine=machine, clear=clear)
        if not clear:
            named = machine.provider_id if how == "unclear: named" else None
            raise Unclear("the market answered 504", provider_id=named)
        return machine.provider_id

    async def destroy(self, provider_id: str, may_begin: MayBegin = at_once) -> None:
        await asyncio.sleep(0)
        await may_begin()
        market, how = self.market, self.market.faults.destroy
        machine = market.machines.get(provider_id)
        if machine is None or machine.gone_at is not None:
            return
        market.auditor.destroying(self.agent, machine)
        if how == "fails":
            raise TryLater("the market answered 503")
        market.end(machine, timedelta(seconds=market.chance.randint(0, 40)) if how == "lags" else timedelta(0))
        if how == "unclear":
            raise Unclear("the market answered 504 to a destroy")

    async def destroy_together(self, provider_ids: Sequence[str], may_begin: MayBegin = at_once) -> None:
        await may_begin()
        there = [m for i in provider_ids if (m := self.market.machines.get(i)) is not None and m.gone_at is None]
        for machine in there:
            self.market.auditor.destroying(self.agent, machine)
        if self.market.faults.destroy != "fine":  # some of them, perhaps
            for machine in there[::2]:
                self.market.end(machine)
            raise TryLater("the market answered 503")
        for machine in there:
            self.market.end(machine)
