"""Each exchange with the market is told to whoever counts, with a word of a few for what it came to."""

import contextlib
from collections import Counter
from typing import Any

import httpx
import pytest

from fleetagent.errors import FleetAgentError
from support.vast import KEY, Handler, a_page, always, an_order, markets_on


async def heard_of(handler: Handler, what: str = "machines") -> Counter[tuple[str, str]]:
    heard: Counter[tuple[str, str]] = Counter()
    markets = markets_on(handler)
    markets.heard = lambda call, outcome: heard.update([(call, outcome)])
    market = markets.market(api_key=KEY, base_url="http://market.test", worker_url_env="FLEETAGENT_URL")
    with contextlib.suppress(FleetAgentError):
        await (market.launch(an_order()) if what == "launch" else market.machines())
    return heard


def not_sent(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route", request=request)


def no_answer(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("cut", request=request)


@pytest.mark.parametrize(
    ("handler", "heard"),
    [
        (always(a_page()), {("list", "Answered"): 1}),
        (always("<html>", status=502), {("list", "ServerError"): 3}),
        (always({"error": "auth_error", "msg": "no"}, status=404), {("list", "Auth"): 1}),
        (always("too often", status=429), {("list", "TooOften"): 1}),
        (not_sent, {("list", "NotSent"): 3}),
        (no_answer, {("list", "NoAnswer"): 3}),
    ],
    ids=["fine", "502, each repetition", "key refused", "429", "no connection", "cut"],
)
async def test_a_call_that_reads_is_counted_each_time_it_leaves(handler: Handler, heard: dict[Any, int]) -> None:
    assert await heard_of(handler) == heard


async def test_an_order_for_an_offer_that_is_gone_was_answered() -> None:
    gone = always({"success": False, "error": "no_such_ask", "msg": "gone"}, status=410)

    assert await heard_of(gone, "launch") == {("create", "OfferGone"): 1}
