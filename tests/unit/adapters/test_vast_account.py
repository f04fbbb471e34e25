"""The account and the prices that hosts ask for: unknown is neither zero nor a failure of the look."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest

from fleetagent.domain.account import PriceRise
from support.vast import Time, a_market, a_pacer, always, failing, markets_on


@pytest.mark.parametrize(
    ("said", "credit"),
    [
        (12.5, "12.5"),
        ("12.50", "12.50"),
        (0, "0"),
        (-3.25, "-3.25"),
        (None, None),
        ("", None),
        ("NaN", None),
        ("Infinity", None),
        (float("nan"), None),
        (1e300, None),
        ("1e1000000", None),
        ("-1e1000000", None),
        (True, None),
        ([], None),
        ({"usd": 5}, None),
    ],
)
async def test_credit_is_read_or_unknown_and_never_zero_by_mistake(said: Any, credit: str | None) -> None:
    account = await a_market(always(json.dumps({"id": 412_001, "credit": said}))).account()

    assert account.credit_usd == (None if credit is None else Decimal(credit))
    assert account.id == "412001"


async def test_an_account_without_credit_in_its_answer_has_an_unknown_one() -> None:
    assert (await a_market(always({"id": 7})).account()).credit_usd is None


ROW = {
    "pending_price_increase_id": 999,
    "contract_id": 50_300_002,
    "host_id": 7,
    "old_gpu_costpersec": 0.0001,
    "new_gpu_costpersec": 0.0002,
    "old_disk_ram_costpersec": None,
    "new_disk_ram_costpersec": None,
    "contract_end_date": 1_796_000_000.0,
}


def rises(*rows: Any, **more: Any) -> dict[str, Any]:
    return {"success": True, "count": len(rows), "truncated": False, "pending_price_increases": list(rows), **more}


async def test_a_price_that_a_host_asks_for_is_read_by_the_hour() -> None:
    market = always(rises(ROW))

    (rise,) = await a_market(market).price_rises() or ()

    assert rise == PriceRise("50300002", Decimal("0.3600"), Decimal(0), datetime.fromtimestamp(1_796_000_000, UTC))
    assert [(r.method, r.url.path) for r in market.requests] == [("GET", "/api/v0/instances/pending-price-increases/")]


@pytest.mark.parametrize(
    ("changes", "rise"),
    [
        ({"new_gpu_costpersec": None}, None),
        ({"new_gpu_costpersec": 0.00005}, None),
        ({"contract_id": None}, None),
        ({"new_gpu_costpersec": "NaN"}, None),
        ({"new_gpu_costpersec": "1e1000000"}, None),
        (
            {
                "new_gpu_costpersec": None,
                "old_disk_ram_costpersec": "0.00000001",
                "new_disk_ram_costpersec": "0.00000003",
            },
            PriceRise("50300002", Decimal(0), Decimal("0.00007200"), datetime.fromtimestamp(1_796_000_000, UTC)),
        ),
        ({"contract_end_date": None}, PriceRise("50300002", Decimal("0.36"), Decimal(0), None)),
        ({"contract_end_date": 1e300}, PriceRise("50300002", Decimal("0.36"), Decimal(0), None)),
    ],
)
async def test_what_raises_nothing_or_makes_no_sense_is_no_rise(changes: Any, rise: PriceRise | None) -> None:
    found = await a_market(always(rises(ROW | changes))).price_rises()

    assert found == (() if rise is None else (rise,))


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (404, {"success": False, "error": "not_found"}),
        (401, {"success": False}),
        (429, "API requests too frequent"),
        (500, ""),
        (200, "<html></html>"),
        (200, {}),
        (200, {"success": False, "pending_price_increases": []}),
        (200, rises(pending_price_increases=None)),
        (200, rises(ROW, truncated=True)),
    ],
)
async def test_rises_that_cannot_be_read_are_unknown_and_asked_for_once(status: int, answer: Any) -> None:
    market = always(answer, status=status)
    client = a_market(market)

    assert await client.price_rises() is None
    assert await client.price_rises() is None
    assert len(market.requests) == 1


async def test_a_market_that_does_not_answer_leaves_rises_unknown() -> None:
    assert await a_market(failing(httpx.ConnectError)).price_rises() is None


async def test_rises_are_read_once_in_ten_minutes_for_all_agents_with_a_key() -> None:
    market, time = always(rises(ROW)), Time()
    markets = markets_on(market, pacer=a_pacer(time), time=time)
    for _ in range(20):
        client = markets.market(api_key="k", base_url="http://m", worker_url_env="U")
        assert len(await client.price_rises() or ()) == 1
        time.now += 59.9

    assert len(market.requests) == 2


def test_nobody_here_can_accept_a_price() -> None:
    assert not [name for name in dir(a_market(always({}))) if "accept" in name]
