"""vast.ai as a `Market`, for one account."""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field, replace

import httpx

from fleetagent.adapters.vast import listing, search
from fleetagent.adapters.vast.account import read_account, read_price_rises
from fleetagent.adapters.vast.buyers import Buyers
from fleetagent.adapters.vast.errors import Meaning, failure, meaning
from fleetagent.adapters.vast.launch import NO_CREDIT, body_for, rented_id
from fleetagent.adapters.vast.pacing import Endpoint, Pacer
from fleetagent.adapters.vast.parse import ident, rented_in
from fleetagent.adapters.vast.recent import Recent
from fleetagent.adapters.vast.search import SearchMemory
from fleetagent.adapters.vast.wire import Call, Heard, NoAnswer, Wire, unheard
from fleetagent.domain.account import Account, PriceRise
from fleetagent.domain.fleet import Offer, Order, Rented
from fleetagent.domain.model import JsonObject
from fleetagent.domain.offers import why_not
from fleetagent.domain.resource import OfferFilter
from fleetagent.errors import BadResource, Denied, LeaseLost, TryLater, Unclear
from fleetagent.ports.world import DESTROYED_TOGETHER, MayBegin, at_once

LISTS_SHARED = 3
"""For how many listings' intervals one listing serves all agents with the same key."""
PRICE_RISES_SHARED_S = 600.0
"""Prices rise days after they are announced."""


@dataclass(slots=True)
class VastMarkets:
    """One for the process: its markets share connections, pacing and what was read seconds ago."""

    http: httpx.AsyncClient
    pacer: Pacer
    searches: SearchMemory
    timeout_seconds: float = 20.0
    create_timeout_seconds: float = 60.0
    """The market may take long to place a machine, and giving up early leaves a doubt to settle."""
    heard: Heard = unheard
    """Told of each exchange with the market, and what it came to."""
    buyers: Buyers = field(init=False)
    lists: Recent[tuple[JsonObject, ...]] = field(init=False)
    accounts: Recent[Account] = field(init=False)
    price_rises: Recent[tuple[PriceRise, ...] | None] = field(init=False)

    def __post_init__(self) -> None:
        clock, seconds = self.pacer.clock, LISTS_SHARED * self.pacer.interval_seconds(Endpoint.LIST)
        self.buyers = Buyers(clock=clock)
        self.lists, self.accounts = Recent(seconds, clock=clock), Recent(seconds, clock=clock)
        self.price_rises = Recent(PRICE_RISES_SHARED_S, clock=clock)

    def market(self, *, api_key: str, base_url: str, worker_url_env: str) -> "VastMarket":
        """The account of this key. `BadResource` for a key or URL that cannot be one."""
        wire = Wire(
            self.http,
            base_url=base_url,
            api_key=api_key,
            pacer=self.pacer,
            timeout_seconds=self.timeout_seconds,
            heard=self.heard,
        )
        return VastMarket(wire, self, worker_url_env)


class VastMarket:
    """The machines and offers that one key gives access to. Implements `ports.Market`."""

    def __init__(self, wire: Wire, markets: VastMarkets, worker_url_env: str) -> None:
        self._wire = wire
        self._shared = markets
        self._worker_url_env = worker_url_env

    def __repr__(self) -> str:
        return f"VastMarket({self._wire!r})"

    async def account(self) -> Account:
        """Whose machines these are, and the money that is left. `TryLater`; `BadResource` for a key that is refused."""
        account = await self._shared.accounts.recall(self._wire.identity, lambda: read_account(self._wire))
        refused = self._shared.buyers.refusal(self._wire.identity, account.credit_usd)
        return replace(account, refused=refused)

    async def price_rises(self) -> tuple[PriceRise, ...] | None:
        """What hosts of this account's machines ask for, as it was minutes ago; None while that is not known."""
        return await self._shared.price_rises.recall(self._wire.identity, lambda: read_price_rises(self._wire))

    def buying(self) -> AbstractAsyncContextManager[None]:
        """Hold this while an offer is read, judged and rented: one buyer at a time for each account. `TryLater`."""
        return self._shared.buyers.turn(self._wire.identity)

    async def offers(self, wanted: OfferFilter, disk_gb: int) -> tuple[Offer, ...]:
        """What passes the filter and was there seconds ago, each offer judged by us, cheapest first."""
        query = search.query_for(wanted, disk_gb)
        key = f"{self._wire.identity} {json.dumps(query, sort_keys=True)}"
        found = await self._shared.searches.recall(key, lambda: search.cheapest(self._wire, query, disk_gb))
        return tuple(offer for offer in found if why_not(offer, wanted, disk_gb) is None)

    async def offer(self, offer_id: str, disk_gb: int) -> Offer | None:
        """This offer as it is at this moment, or None when it is gone; never from memory."""
        if ident(offer_id) != offer_id:
            return None
        offer = await search.one(self._wire, offer_id, disk_gb)
        if offer is None:
            self._shared.searches.forget(offer_id)
        return offer

    async def launch(self, order: Order, may_begin: MayBegin = at_once) -> str:
        """Rent it once and return the machine's id; sent a single time whatever happens. Errors as the port says."""
        if ident(order.offer_id) != order.offer_id:
            raise Denied("OfferGone", "there is no such offer")
        self._shared.searches.forget(order.offer_id)  # whatever comes of it, it is not to be had twice
        call = Call(
            "PUT",
            f"/api/v0/asks/{order.offer_id}/",
            Endpoint.CREATE,
            body=body_for(order),
            timeout_seconds=self._shared.create_timeout_seconds,
            secrets=_secrets_in(order),
        )
        with self._taking(order.offer_id), self._writing():
            try:
                answer = await self._wire.once(call, may_begin)
            except NoAnswer as error:
                raise Unclear(str(error)) from error
            return rented_id(answer)

    @contextmanager
    def _taking(self, offer_id: str) -> Iterator[None]:
        """Nobody else of us gets this offer, unless it is certain that nothing came of it."""
        buyers, wire = self._shared.buyers, self._wire
        if not buyers.claim(wire.market, offer_id):
            raise Denied("OfferGone", "another agent has just taken this offer")
        try:
            yield
        except (TryLater, BadResource, LeaseLost):
            buyers.give_back(wire.market, offer_id)
            raise
        except Denied as no:
            if no.code != "OfferGone":
                buyers.give_back(wire.market, offer_id)
            if no.code in NO_CREDIT:
                buyers.lacks_money(wire.identity, str(no))
            raise
        buyers.rented(wire.identity)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """What is listed while it goes on may show the world before it: nobody is told that later."""
        self._shared.lists.written(self._wire.identity)
        try:
            yield
        finally:
            self._shared.lists.written(self._wire.identity)

    async def machines(self) -> tuple[Rented, ...]:
        """Every machine of the account, proved complete; anything less is `FleetUnreadable`."""
        rows = await self._shared.lists.recall(self._wire.identity, lambda: listing.all_rows(self._wire))
        return tuple(machine for row in rows if (machine := rented_in(row, self._worker_url_env)))

    async def machine(self, provider_id: str) -> Rented | None:
        """Asked for this one machine; None when the market says that there is none. `TryLater`."""
        answer = await self._wire.read(Call("GET", _path(provider_id), Endpoint.SHOW, {"owner": "me"}))
        means = meaning(answer)
        if means is Meaning.INSTANCE_GONE:
            return None
        if means is not Meaning.FINE:
            raise failure(answer)
        if "instances" in answer.fields and answer.fields["instances"] is None:
            return None
        machine = rented_in(answer.fields.get("instances"), self._worker_url_env)
        if machine is None or machine.provider_id != provider_id:
            raise TryLater(f"{answer.said}, with something else than machine {provider_id}")
        self._shared.lists.written(self._wire.identity)  # who asks for one doubts the list: it is told to nobody later
        return machine

    async def destroy(self, provider_id: str, may_begin: MayBegin = at_once) -> None:
        """End it and its bill. To destroy what is gone already is no error. `TryLater` when not sure."""
        call = Call("DELETE", _path(provider_id), Endpoint.DESTROY, body={})
        with self._writing():
            answer = await self._wire.read(call, may_begin)
        gone = answer.status == httpx.codes.OK and answer.is_json and answer.body is None
        if not gone and meaning(answer) not in {Meaning.FINE, Meaning.INSTANCE_GONE}:
            raise failure(answer)

    async def destroy_together(self, provider_ids: Sequence[str], may_begin: MayBegin = at_once) -> None:
        """End all of them in one call. `TryLater` when one of them may be left: then each is to be asked for."""
        if not 0 < len(provider_ids) <= DESTROYED_TOGETHER or any(ident(each) != each for each in provider_ids):
            raise Denied("NoSuchMachine", f"1 to {DESTROYED_TOGETHER} machines, by the market's ids, which are numbers")
        body: JsonObject = {"instance_ids": [int(each) for each in provider_ids]}
        call = Call("DELETE", "/api/v0/instances/", Endpoint.DESTROY, body=body)
        with self._writing():
            answer = await self._wire.once(call, may_begin)
        if meaning(answer) is not Meaning.FINE:
            raise failure(answer)


def _secrets_in(order: Order) -> tuple[str, ...]:
    """Values of the environment, and the token at the end of a URL by itself: an answer may repeat it re-encoded."""
    values = tuple(order.env.values())
    return values + tuple(value.rstrip("/").rpartition("/")[2] for value in values if "://" in value)


def _path(provider_id: str) -> str:
    if ident(provider_id) != provider_id:
        raise Denied("NoSuchMachine", "the market's ids are numbers; this is none")
    return f"/api/v0/instances/{provider_id}/"
