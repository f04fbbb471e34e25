"""Searching: asked narrowly, judged again by us, paged by price, remembered for a moment."""

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest

from fleetagent.domain.resource import OfferFilter
from fleetagent.errors import BadResource, TryLater
from support.vast import Recorded, Time, a_market, always, an_offer_row, markets_on

ANY = OfferFilter.read(
    {
        "minGpuRamGB": 0,
        "minCpuRamGB": 0,
        "minCpuCores": 0,
        "minDiskGB": 0,
        "minDownloadMbps": 0,
        "minCudaVersion": "0.0",
        "minReliability": 0,
        "verified": False,
    }
)


def found(*rows: Any) -> dict[str, Any]:
    return {"offers": list(rows)}


async def test_the_filter_goes_out_in_the_markets_words_and_units() -> None:
    market = always(found())
    wanted = OfferFilter.read(
        {
            "gpuNames": ["RTX 5090", "RTX 4090"],
            "minGpuRamGB": 16,
            "minCpuRamGB": 240,
            "minCpuCores": 25,
            "minDiskGB": 200,
            "minDownloadMbps": 100,
            "minCudaVersion": "13.0",
            "minReliability": 0.97,
            "maxUsdPerHour": "0.90",
            "verified": True,
            "countries": ["DE", "FR"],
            "excludeMachines": [31, 32],
        }
    )

    await a_market(market).offers(wanted, disk_gb=250)

    (request,) = market.requests
    assert (request.method, request.url.path, request.url.query) == ("POST", "/api/v0/bundles/", b"")
    assert market.bodies == [
        {
            "type": "on-demand",
            "gpu_name": {"in": ["RTX 5090", "RTX 4090"]},
            "gpu_ram": {"gte": 15200},
            "cpu_ram": {"gte": 240_000},
            "cpu_cores_effective": {"gte": 25},
            "disk_space": {"gte": 250},
            "inet_down": {"gte": 100},
            "cuda_max_good": {"gte": 13.0},
            "reliability": {"gte": 0.97},
            "dph_total": {"lte": 0.9},
            "verified": {"eq": True},
            "geolocation": {"in": ["DE", "FR"]},
            "machine_id": {"notin": [31, 32]},
            "rentable": {"eq": True},
            "rented": {"eq": False},
            "allocated_storage": 250,
            "order": [["dph_total", "asc"]],
            "limit": 64,
        }
    ]


async def test_a_filter_without_limits_asks_without_limits() -> None:
    market = always(found())

    await a_market(market).offers(ANY, disk_gb=8)

    assert set(market.bodies[0]) == {
        "disk_space",
        "type",
        "rentable",
        "rented",
        "order",
        "limit",
        "allocated_storage",
    }


async def test_offers_outside_the_filter_are_left_out_though_the_market_shows_them() -> None:
    rows = [
        an_offer_row(id=1, ask_contract_id=1),
        an_offer_row(id=2, ask_contract_id=2, gpu_name="RTX 3060"),
        an_offer_row(id=3, ask_contract_id=3, dph_base=5.0),
        an_offer_row(id=4, ask_contract_id=4, disk_space=100),
        an_offer_row(id=5, ask_contract_id=5, cpu_ram=256_000),  # the host's; a quarter of it is ours
        None,
        {"id": 6},
    ]
    wanted = OfferFilter.read({"gpuNames": ["RTX 5090"], "maxUsdPerHour": "0.90", "minDiskGB": 0})

    offers = await a_market(always(found(*rows))).offers(wanted, disk_gb=250)

    assert [offer.offer_id for offer in offers] == ["1"]


async def test_offers_come_once_and_cheapest_first() -> None:
    rows = [an_offer_row(id=n, ask_contract_id=n, dph_base=price) for n, price in ((1, 0.7), (2, 0.4), (1, 0.7))]

    offers = await a_market(always(found(*rows))).offers(ANY, disk_gb=250)

    assert [offer.offer_id for offer in offers] == ["2", "1"]


def shelf(prices: list[float]) -> Recorded:
    """A market that shows 64 offers at a time, from the price on that it is asked for."""
    rows = [
        an_offer_row(id=n, ask_contract_id=n, dph_base=price, dph_total=price, storage_cost=0.0)
        for n, price in enumerate(prices, start=1)
    ]

    def handler(request: httpx.Request) -> httpx.Response:
        body = httpx.Response(200, content=request.content).json()
        least = body.get("dph_total", {}).get("gte", 0)
        return httpx.Response(200, json=found(*[row for row in rows if row["dph_total"] >= least][:64]))

    return Recorded(handler)


async def test_more_than_a_page_is_read_on_from_the_last_price() -> None:
    market = shelf([round(0.2 + n * 0.001, 3) for n in range(150)])

    offers = await a_market(market).offers(ANY, disk_gb=250)

    assert len(offers) == len({offer.offer_id for offer in offers}) == 150
    assert len(market.requests) == 3
    assert market.bodies[1]["dph_total"] == {"gte": 0.263}


async def test_paging_keeps_the_highest_price() -> None:
    market = shelf([round(0.2 + n * 0.001, 3) for n in range(150)])
    wanted = ANY.model_copy(update={"max_usd_per_hour": Decimal("0.90")})

    await a_market(market).offers(wanted, disk_gb=250)

    assert market.bodies[1]["dph_total"] == {"gte": 0.263, "lte": 0.9}


@pytest.mark.parametrize(("prices", "calls"), [([0.5] * 100, 2), ([0.001 * n for n in range(1, 900)], 4)])
async def test_paging_ends_where_it_gets_no_further_or_has_seen_enough(prices: list[float], calls: int) -> None:
    market = shelf(prices)

    await a_market(market).offers(ANY, disk_gb=250)

    assert len(market.requests) == calls


async def test_the_same_search_within_seconds_is_answered_from_memory() -> None:
    market, time = always(found(an_offer_row())), Time()
    markets = markets_on(market, time=time)
    one, other = (markets.market(api_key="k1", base_url="http://m", worker_url_env="U") for _ in range(2))

    await asyncio.gather(one.offers(ANY, 250), other.offers(ANY, 250), other.offers(ANY, 250))
    assert len(market.requests) == 1

    await one.offers(ANY, 100)  # another disk is another price
    assert len(market.requests) == 2

    stranger = markets.market(api_key="k2", base_url="http://m", worker_url_env="U")
    await stranger.offers(ANY, 250)
    assert len(market.requests) == 3

    time.now += 15
    await one.offers(ANY, 250)
    assert len(market.requests) == 4


async def test_a_failed_search_is_not_remembered() -> None:
    market = a_market(always(httpx.Response(400, json={"success": False}), found(an_offer_row())))
    with pytest.raises(TryLater):
        await market.offers(ANY, 250)

    assert len(await market.offers(ANY, 250)) == 1


async def test_one_offer_is_asked_for_by_its_contract_and_never_remembered() -> None:
    market = always(found(an_offer_row()), found(an_offer_row(dph_base=0.8)), found())
    client = a_market(market)

    first, second, third = [await client.offer("4711", 250) for _ in range(3)]

    assert first
    assert second
    assert (str(first.usd_per_hour), str(second.usd_per_hour), third) == ("0.550000", "0.850000", None)
    assert market.bodies[0]["ask_contract_id"] == {"eq": 4711}
    assert market.bodies[0]["allocated_storage"] == 250


@pytest.mark.parametrize(
    "rows",
    [
        [an_offer_row(id=1, ask_contract_id=1)],  # the filter was forgotten
        [an_offer_row(rentable=False)],
        [an_offer_row(rented=True)],
        [an_offer_row(dph_base=None)],
    ],
)
async def test_an_offer_that_is_not_there_to_be_rented_is_gone(rows: list[Any]) -> None:
    assert await a_market(always(found(*rows))).offer("4711", 250) is None


@pytest.mark.parametrize("offer_id", ["", "abc", "0", "-1", "1/../2", "4711 ", "²", "9" * 40, "04711"])
async def test_what_is_no_offer_id_is_gone_without_asking(offer_id: str) -> None:
    market = always(found())

    assert await a_market(market).offer(offer_id, 250) is None
    assert market.requests == []


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (200, {}, TryLater),
        (200, {"offers": None}, TryLater),
        (200, {"success": False, "offers": []}, TryLater),
        (200, "<html>", TryLater),
        (410, {"success": False, "error": "deprecated_endpoint"}, TryLater),
        (500, "", TryLater),
        (404, {"success": False, "error": "auth_error", "msg": "Invalid user key"}, BadResource),
    ],
)
async def test_a_search_that_fails_is_no_empty_market(status: int, answer: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        await a_market(always(answer, status=status)).offers(ANY, 250)
