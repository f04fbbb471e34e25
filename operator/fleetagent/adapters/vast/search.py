"""Searching for offers: what we ask, page by page of price, and a short memory of the answers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fleetagent.adapters.vast.errors import Meaning, failure, meaning
from fleetagent.adapters.vast.pacing import Endpoint
from fleetagent.adapters.vast.parse import MB_PER_GB, number, offer_in
from fleetagent.adapters.vast.wire import Call, Wire
from fleetagent.domain.fleet import Offer
from fleetagent.domain.model import JsonObject
from fleetagent.domain.offers import GPU_RAM_SLACK
from fleetagent.domain.resource import OfferFilter
from fleetagent.errors import TryLater

PATH = "/api/v0/bundles/"
PAGE_OFFERS = 64
"""The market shows no more, whatever `limit` says."""

MAX_PAGES = 4
"""Of ten searches a minute; the cheapest 256 are enough to choose from."""

MAX_REMEMBERED = 64


def query_for(wanted: OfferFilter, disk_gb: int) -> JsonObject:
    """The filter in the market's words. It only narrows the answer down: every offer is judged again by ours.

    `cpu_ram` is the whole host's memory; our share, which is what counts, cannot be greater.
    """
    least = {
        "gpu_ram": int(wanted.min_gpu_ram_gb * MB_PER_GB * GPU_RAM_SLACK),
        "cpu_ram": wanted.min_cpu_ram_gb * MB_PER_GB,
        "cpu_cores_effective": wanted.min_cpu_cores,
        "disk_space": max(wanted.min_disk_gb, disk_gb),
        "inet_down": wanted.min_download_mbps,
        "cuda_max_good": float(str(wanted.min_cuda_version)),
        "reliability": float(wanted.min_reliability),
    }
    query: dict[str, Any] = {name: {"gte": value} for name, value in least.items() if value}
    if wanted.gpu_names:
        query["gpu_name"] = {"in": list(wanted.gpu_names)}
    if wanted.countries:
        query["geolocation"] = {"in": list(wanted.countries)}  # matched by country code, though offers say `City, CC`
    if wanted.exclude_machines:
        query["machine_id"] = {"notin": list(wanted.exclude_machines)}
    if wanted.verified:
        query["verified"] = {"eq": True}
    if wanted.max_usd_per_hour is not None:
        query["dph_total"] = {"lte": float(wanted.max_usd_per_hour)}
    return query | {"rentable": {"eq": True}, "rented": {"eq": False}, **_common(disk_gb)}


async def cheapest(wire: Wire, query: JsonObject, disk_gb: int) -> tuple[Offer, ...]:
    """What the market finds, each offer once, at most `MAX_PAGES` pages, cheapest first. `TryLater`, `BadResource`."""
    found: dict[str, Offer] = {}
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        rows = await _rows(wire, query)
        offers = [offer for row in rows if (offer := offer_in(row, disk_gb))]
        found |= {offer.offer_id: offer for offer in offers}
        totals = [total for row in rows if (total := number(row.get("dph_total"))) is not None]
        ids = {str(row.get("id")) for row in rows}
        if len(rows) < PAGE_OFFERS or not totals or ids <= seen:
            break
        seen |= ids
        # From the last price on, that price included, as several offers may have it.
        query = query | {"dph_total": query.get("dph_total", {}) | {"gte": max(totals)}}
    return tuple(sorted(found.values(), key=lambda offer: (offer.usd_per_hour, offer.offer_id)))


async def one(wire: Wire, offer_id: str, disk_gb: int) -> Offer | None:
    """The offer as it is now, or None. A filter on `id` matches nothing; `ask_contract_id` is the one that works."""
    query = {"ask_contract_id": {"eq": int(offer_id)}, **_common(disk_gb)}
    offers = (offer_in(row, disk_gb) for row in await _rows(wire, query))
    # The market may have forgotten the filter: another offer is not the one that was asked for.
    return next((offer for offer in offers if offer and offer.offer_id == offer_id), None)


def _common(disk_gb: int) -> JsonObject:
    return {
        "type": "on-demand",
        "order": [["dph_total", "asc"]],
        "limit": PAGE_OFFERS,
        "allocated_storage": disk_gb,  # else prices are those of another disk
    }


async def _rows(wire: Wire, query: JsonObject) -> list[JsonObject]:
    answer = await wire.read(Call("POST", PATH, Endpoint.SEARCH, body=query))
    if meaning(answer) is not Meaning.FINE:
        raise failure(answer)
    rows = answer.fields.get("offers")
    if not isinstance(rows, list):
        raise TryLater(f"{answer.said}, without a list of offers")
    return [row for row in rows if isinstance(row, dict)]


@dataclass(slots=True)
class _Remembered:
    offers: tuple[Offer, ...] = ()
    until: float = float("-inf")
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class SearchMemory:
    """Searches of the last seconds, shared by all that use the same key: the market takes ten a minute."""

    def __init__(self, seconds: float = 15.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._remembered: dict[str, _Remembered] = {}

    async def recall(self, key: str, search: Callable[[], Awaitable[tuple[Offer, ...]]]) -> tuple[Offer, ...]:
        """The remembered answer, else that of `search`, called once however many ask; failures are not kept."""
        entry = self._remembered.setdefault(key, _Remembered())
        async with entry.asking:
            if self._clock() >= entry.until:
                entry.offers = await search()
                entry.until = self._clock() + self._seconds
        self._forget_old()
        return entry.offers

    def forget(self, offer_id: str) -> None:
        """An offer that was rented or is gone is shown to nobody from memory."""
        for entry in self._remembered.values():
            entry.offers = tuple(o for o in entry.offers if o.offer_id != offer_id)

    def _forget_old(self) -> None:
        if len(self._remembered) <= MAX_REMEMBERED:
            return
        now = self._clock()
        self._remembered = {k: e for k, e in self._remembered.items() if e.until > now or e.asking.locked()}
