"""vast.ai as a `Market`, for one account."""

import json
from dataclasses import dataclass

import httpx

from fleetagent.adapters.vast import listing, search
from fleetagent.adapters.vast.errors import Meaning, failure, meaning
from fleetagent.adapters.vast.launch import body_for, rented_id
from fleetagent.adapters.vast.pacing import Endpoint, Pacer
from fleetagent.adapters.vast.parse import ident, rented_in
from fleetagent.adapters.vast.search import SearchMemory
from fleetagent.adapters.vast.wire import Call, NoAnswer, Wire
from fleetagent.domain.fleet import Offer, Order, Rented
from fleetagent.domain.offers import why_not
from fleetagent.domain.resource import OfferFilter
from fleetagent.errors import Denied, TryLater, Unclear
from fleetagent.ports.world import MayBegin, at_once


@dataclass(frozen=True, slots=True)
class VastMarkets:
    """One for the process: its markets share connections, pacing and the memory of searches."""

    http: httpx.AsyncClient
    pacer: Pacer
    searches: SearchMemory
    timeout_seconds: float = 20.0
    create_timeout_seconds: float = 60.0
    """The market may take long to place a machine, and giving up early leaves a doubt to settle."""

    def market(self, *, api_key: str, base_url: str, worker_url_env: str) -> "VastMarket":
        """The account of this key. `BadResource` for a key or URL that cannot be one."""
        wire = Wire(
            self.http, base_url=base_url, api_key=api_key, pacer=self.pacer, timeout_seconds=self.timeout_seconds
        )
        return VastMarket(
            wire,
            searches=self.searches,
            worker_url_env=worker_url_env,
            create_timeout_seconds=self.create_timeout_seconds,
        )


class VastMarket:
    """The machines and offers that one key gives access to. Implements `ports.Market`."""

    def __init__(
        self, wire: Wire, *, searches: SearchMemory, worker_url_env: str, create_timeout_seconds: float
    ) -> None:
        self._wire = wire
        self._searches = searches
        self._worker_url_env = worker_url_env
        self._create_timeout_seconds = create_timeout_seconds

    def __repr__(self) -> str:
        return f"VastMarket({self._wire!r})"

    async def account_id(self) -> str:
        """Whose machines these are. `TryLater`, or `BadResource` for a key that is refused."""
        answer = await self._wire.read(Call("GET", "/api/v0/users/current/", Endpoint.ACCOUNT))
        if meaning(answer) is not Meaning.FINE:
            raise failure(answer)
        account = ident(answer.fields.get("id"))
        if account is None:
            raise TryLater(f"{answer.said}, without the account's id")
        return account

    async def offers(self, wanted: OfferFilter, disk_gb: int) -> tuple[Offer, ...]:
        """What passes the filter and was there seconds ago, each offer judged by us, cheapest first."""
        query = search.query_for(wanted, disk_gb)
        key = f"{self._wire.identity} {json.dumps(query, sort_keys=True)}"
        found = await self._searches.recall(key, lambda: search.cheapest(self._wire, query, disk_gb))
        return tuple(offer for offer in found if why_not(offer, wanted, disk_gb) is None)

    async def offer(self, offer_id: str, disk_gb: int) -> Offer | None:
        """This offer as it is at this moment, or None when it is gone; never from memory."""
        if ident(offer_id) != offer_id:
            return None
        offer = await search.one(self._wire, offer_id, disk_gb)
        if offer is None:
            self._searches.forget(offer_id)
        return offer

    async def launch(self, order: Order, may_begin: MayBegin = at_once) -> str:
        """Rent it once and return the machine's id; sent a single time whatever happens. Errors as the port says."""
        if ident(order.offer_id) != order.offer_id:
            raise Denied("OfferGone", "there is no such offer")
        self._searches.forget(order.offer_id)  # whatever comes of it, it is not to be had twice
        call = Call(
            "PUT",
            f"/api/v0/asks/{order.offer_id}/",
            Endpoint.CREATE,
            body=body_for(order),
            timeout_seconds=self._create_timeout_seconds,
            secrets=_secrets_in(order),
        )
        try:
            answer = await self._wire.once(call, may_begin)
        except NoAnswer as error:
            raise Unclear(str(error)) from error
        return rented_id(answer)

    async def machines(self) -> tuple[Rented, ...]:
        """Every machine of the account, proved complete; anything less is `FleetUnreadable`."""
        rows = await listing.all_rows(self._wire)
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
        return machine

    async def destroy(self, provider_id: str, may_begin: MayBegin = at_once) -> None:
        """End it and its bill. To destroy what is gone already is no error. `TryLater` when not sure."""
        answer = await self._wire.read(Call("DELETE", _path(provider_id), Endpoint.DESTROY, body={}), may_begin)
        gone = answer.status == httpx.codes.OK and answer.is_json and answer.body is None
        if not gone and meaning(answer) not in {Meaning.FINE, Meaning.INSTANCE_GONE}:
            raise failure(answer)


def _secrets_in(order: Order) -> tuple[str, ...]:
    """Values of the environment, and the token at the end of a URL by itself: an answer may repeat it re-encoded."""
    values = tuple(order.env.values())
    return values + tuple(value.rstrip("/").rpartition("/")[2] for value in values if "://" in value)


def _path(provider_id: str) -> str:
    if ident(provider_id) != provider_id:
        raise Denied("NoSuchMachine", "the market's ids are numbers; this is none")
    return f"/api/v0/instances/{provider_id}/"
