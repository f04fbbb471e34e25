"""The list of machines: complete, or unknown. Never empty by mistake."""

import json
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from fleetagent.domain.fleet import MarketStatus
from fleetagent.errors import BadResource, FleetUnreadable
from support.vast import Recorded, a_machine_row, a_market, a_page, always, failing

DEPRECATED = {"success": False, "error": "deprecated_endpoint", "msg": "Use /api/v1/instances/ instead."}


async def test_an_account_without_machines_is_an_empty_fleet() -> None:
    assert await a_market(always(a_page())).machines() == ()


async def test_all_pages_are_read_by_token_in_the_order_of_ids() -> None:
    rows = [a_machine_row(n) for n in range(1, 61)]

    def pages(request: httpx.Request) -> httpx.Response:
        query = parse_qs(request.url.query.decode())
        start = int(query.get("after_token", ["0"])[0])
        assert query["limit"] == ["25"]
        assert json.loads(query["order_by"][0]) == [{"col": "id", "dir": "asc"}]
        end = start + 25
        page = a_page(*rows[start:end], total=60, token=str(end) if end < 60 else None)
        return httpx.Response(200, json=page)

    market = Recorded(pages)
    machines = await a_market(market).machines()

    assert [machine.provider_id for machine in machines] == [str(n) for n in range(1, 61)]
    assert [request.url.path for request in market.requests] == ["/api/v1/instances/"] * 3


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (410, DEPRECATED),
        (200, DEPRECATED),
        (200, ""),
        (200, '""'),
        (200, {}),
        (200, "null"),
        (200, []),
        (200, "<html>maintenance</html>"),
        (200, {"success": False, "instances": [], "total_instances": 0, "next_token": None}),
        (200, {"instances": [], "total_instances": 0, "next_token": None}),
        (200, {"success": "true", "instances": [], "total_instances": 0}),
        (200, a_page(instances=None)),
        (200, a_page(instances={})),
        (200, a_page(total_instances=None)),
        (200, a_page(total_instances=False)),
        (200, a_page(total_instances="0")),
        (200, a_page(next_token=7)),
        (200, a_page(total=1)),
        (200, a_page(a_machine_row(1), total=3)),
        (200, a_page(a_machine_row(1), total=1, instances_found=2)),
        (200, a_page(a_machine_row(1), a_machine_row(1))),
        (200, a_page(a_machine_row(1), a_machine_row(1), total=1)),
        (200, a_page(None)),
        (200, a_page(a_machine_row(1), None, total=1)),
        (200, a_page({"label": "fa/abc/1"})),
        (200, a_page(total=0, token="more")),
        (200, a_page(a_machine_row(1), token="the same for ever")),
        (200, "[" * 100_000),
        (204, ""),
        (302, ""),
        (404, {"success": False, "error": "not_found", "msg": "no such page"}),
        (404, "<html>not found</html>"),
        (403, "<html>checking your browser</html>"),
        (500, "Internal Server Error"),
        (502, "<html>bad gateway</html>"),
        (503, a_page()),
    ],
)
async def test_whatever_is_not_proved_complete_is_unreadable(status: int, answer: Any) -> None:
    with pytest.raises(FleetUnreadable):
        await a_market(always(answer, status=status)).machines()


@pytest.mark.parametrize(
    "error", [httpx.ReadTimeout, httpx.ConnectTimeout, httpx.ConnectError, httpx.RemoteProtocolError]
)
async def test_a_way_to_the_market_that_breaks_makes_the_fleet_unreadable(error: type[httpx.HTTPError]) -> None:
    with pytest.raises(FleetUnreadable):
        await a_market(failing(error)).machines()


async def test_a_page_that_fails_after_good_ones_makes_the_fleet_unreadable() -> None:
    first = a_page(*(a_machine_row(n) for n in range(1, 26)), total=26, token="t")

    with pytest.raises(FleetUnreadable):
        await a_market(always(first, httpx.Response(500))).machines()


async def test_a_short_failure_is_asked_again_since_reading_changes_nothing() -> None:
    bad_gateway = httpx.Response(502, text="<html></html>")

    machines = await a_market(always(bad_gateway, bad_gateway, a_page(a_machine_row(1)))).machines()

    assert len(machines) == 1


async def test_a_time_out_is_not_tried_again_as_nobody_could_wait_for_it() -> None:
    market = failing(httpx.ReadTimeout)

    with pytest.raises(FleetUnreadable):
        await a_market(market).machines()

    assert len(market.requests) == 1


async def test_a_machine_that_came_while_the_pages_were_read_makes_a_second_walk() -> None:
    before = a_page(a_machine_row(1), total=2)
    after = a_page(a_machine_row(1), a_machine_row(2))

    assert len(await a_market(always(before, after)).machines()) == 2


async def test_a_429_says_when_to_come_back() -> None:
    too_often = httpx.Response(429, text="API requests too frequent", headers={"Retry-After": "7"})

    with pytest.raises(FleetUnreadable) as caught:
        await a_market(always(too_often)).machines()

    assert caught.value.retry_after_seconds == 7


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (404, {"success": False, "error": "auth_error", "msg": "Invalid user key"}),
        (401, {"success": False, "error": "auth_error", "msg": "Invalid user key"}),
        (401, "Unauthorized"),
        (200, {"success": False, "msg": "Invalid user key"}),
        (403, {"success": False, "error": "forbidden", "msg": "key lacks instance_read"}),
    ],
)
async def test_a_refused_key_is_for_the_owner_to_mend(status: int, answer: Any) -> None:
    with pytest.raises(BadResource) as caught:
        await a_market(always(answer, status=status)).machines()

    assert (caught.value.condition, caught.value.reason) == ("FleetKnown", "MarketKeyRefused")


@pytest.mark.parametrize(
    ("word", "status"),
    [
        (None, MarketStatus.LOADING),
        ("created", MarketStatus.LOADING),
        ("loading", MarketStatus.LOADING),
        ("rebooting", MarketStatus.LOADING),
        ("running", MarketStatus.RUNNING),
        ("stopped", MarketStatus.STOPPED),
        ("exited", MarketStatus.STOPPED),
        ("frozen", MarketStatus.STOPPED),
        ("offline", MarketStatus.OFFLINE),
        ("unknown", MarketStatus.UNKNOWN),
        ("a word of next year", MarketStatus.UNKNOWN),
        (["running"], MarketStatus.UNKNOWN),
        (7, MarketStatus.UNKNOWN),
    ],
)
async def test_the_markets_states_become_ours_and_new_ones_are_unknown(word: Any, status: MarketStatus) -> None:
    (machine,) = await a_market(always(a_page(a_machine_row(actual_status=word)))).machines()

    assert machine.status is status


async def test_a_machine_of_which_nothing_is_known_is_still_listed() -> None:
    (machine,) = await a_market(always(a_page({"id": 5}))).machines()

    assert (machine.provider_id, machine.label, machine.usd_per_hour, machine.worker_url) == ("5", None, None, None)


@pytest.mark.parametrize("price", [None, "NaN", float("nan"), float("inf"), "1e999999", -1, 0, "cheap", True, []])
async def test_a_price_that_is_none_is_unknown(price: Any) -> None:
    answer = json.dumps(a_page(a_machine_row(dph_total=price)))

    (machine,) = await a_market(always(answer)).machines()

    assert machine.usd_per_hour is None


async def test_a_list_whose_pages_lead_in_a_circle_is_left_at_once() -> None:
    """Each page at the market's pace: four hundred of them would take minutes."""
    tokens = iter(["a", "b", "a", "b", "a"])
    rows = iter(range(1, 1000))
    market = Recorded(
        lambda _: httpx.Response(200, json=a_page(a_machine_row(next(rows)), total=5, token=next(tokens)))
    )

    with pytest.raises(FleetUnreadable, match="does not come to an end"):
        await a_market(market).machines()

    assert len(market.requests) == 3
