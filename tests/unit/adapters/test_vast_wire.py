"""The key, other secrets, cookies, redirects and sizes: what never crosses the border."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from fleetagent.adapters.vast.wire import MAX_ANSWER_BYTES
from fleetagent.errors import BadResource, FleetAgentError, FleetUnreadable, TryLater, Unclear
from support.vast import KEY, Recorded, a_market, a_page, always, an_order, markets_on

URL_OF_A_MACHINE = "http://workers.test/workers/secret-token-of-a-machine"


async def test_the_key_stands_in_its_header_and_nowhere_else() -> None:
    market = always(a_page())

    await a_market(market).machines()

    (request,) = market.requests
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in str(request.url)
    assert KEY.encode() not in request.content


@pytest.mark.parametrize("status", [200, 400, 404, 429, 500])
@pytest.mark.parametrize(
    "answer",
    [
        {"success": False, "error": f"bad {KEY}", "msg": f"{KEY} {URL_OF_A_MACHINE}"},
        f"<html>{'x' * 150} {KEY} {URL_OF_A_MACHINE}</html>",
        {"success": True, "new_contract": 0, "instance_api_key": "secret-key-of-the-machine"},
    ],
    ids=["JSON", "HTML", "half a success"],
)
async def test_no_error_repeats_a_secret_that_the_market_repeats(status: int, answer: Any) -> None:
    client = a_market(always(answer, status=status))

    with pytest.raises(FleetAgentError) as caught:
        await client.launch(an_order(env={"FLEETAGENT_URL": URL_OF_A_MACHINE}))

    shown = [str(caught.value), repr(caught.value), repr(client), *traceback.format_exception(caught.value)]
    for secret in (KEY[:12], "secret-token", "secret-key-of-the-machine"):
        assert not any(secret in text for text in shown), shown


async def test_a_transport_error_that_repeats_the_key_is_shown_without_it() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError(f"while sending {request.headers['Authorization']}", request=request)

    with pytest.raises(Unclear) as caught:
        await a_market(handler).launch(an_order())

    assert KEY not in str(caught.value)
    assert "PUT /api/v0/asks/4711/" in str(caught.value)


async def test_an_error_names_call_status_code_and_text() -> None:
    answer = {"success": False, "error": "invalid_request", "msg": "no such column"}

    with pytest.raises(FleetUnreadable) as caught:
        await a_market(always(answer, status=400)).machines()

    assert "GET /api/v1/instances/ answered 400: invalid_request no such column" in str(caught.value)


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    market = always(httpx.Response(308, headers={"Location": "http://elsewhere.test/"}))

    with pytest.raises(FleetUnreadable):
        await a_market(market).machines()

    assert {request.url.host for request in market.requests} == {"market.test"}


async def test_cookies_of_one_account_are_not_sent_for_another() -> None:
    answer = httpx.Response(200, json=a_page(), headers={"Set-Cookie": "session=of-the-first; Path=/"})
    market = always(answer)
    markets = markets_on(market)
    for key in ("k1", "k2", "k1"):
        await markets.market(api_key=key, base_url="http://market.test", worker_url_env="U").machines()

    assert len(market.requests) == 3
    assert all("Cookie" not in request.headers for request in market.requests)


class Dripping(httpx.AsyncByteStream):
    """An answer that never ends and never pauses for long."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.001)
            yield b" "


async def test_an_answer_that_drips_is_given_up_as_a_whole() -> None:
    markets = markets_on(lambda _: httpx.Response(200, stream=Dripping()))
    impatient = replace(markets, timeout_seconds=0.05, create_timeout_seconds=0.05)
    client = impatient.market(api_key=KEY, base_url="http://market.test", worker_url_env="U")

    with pytest.raises(Unclear):
        await client.launch(an_order())
    with pytest.raises(FleetUnreadable):
        await client.machines()


class Endless(httpx.AsyncByteStream):
    """An answer that does not end, and counts what was taken of it."""

    def __init__(self) -> None:
        self.sent = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.sent += 65_536
            yield b" " * 65_536

    async def aclose(self) -> None:
        self.closed = True


async def test_an_answer_without_end_is_cut_and_is_none() -> None:
    streams: list[Endless] = []

    def handler(_: httpx.Request) -> httpx.Response:
        streams.append(Endless())
        return httpx.Response(200, stream=streams[-1])

    with pytest.raises(Unclear):
        await a_market(handler).launch(an_order())

    (stream,) = streams
    assert stream.sent <= MAX_ANSWER_BYTES + 65_536
    assert stream.closed


@pytest.mark.parametrize(
    "base_url", ["http://market.test", "http://market.test/", "http://market.test//", " http://market.test "]
)
async def test_slashes_at_the_end_of_the_base_do_not_matter(base_url: str) -> None:
    market = always(a_page())

    await a_market(market, base_url=base_url).machines()

    assert market.requests[0].url.path == "/api/v1/instances/"


async def test_a_base_with_a_path_keeps_it() -> None:
    market = always(a_page())

    await a_market(market, base_url="http://proxy.test/vast/").machines()

    assert market.requests[0].url.path == "/vast/api/v1/instances/"


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "market.test",
        "ftp://market.test",
        "http://",
        "http://user:pw@market.test",
        "http://m/?x=1",
        "http://m/#x",
        "http://[::",
    ],
)
def test_a_base_that_is_none_is_for_the_owner_to_mend(base_url: str) -> None:
    with pytest.raises(BadResource) as caught:
        a_market(Recorded(lambda _: httpx.Response(200)), base_url=base_url)

    assert caught.value.reason == "MarketURLInvalid"
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "  \n", "two words", "line\nbreak", "schlüssel", "null\x00"])
def test_a_key_that_cannot_be_one_is_for_the_owner_to_mend(key: str) -> None:
    with pytest.raises(BadResource) as caught:
        a_market(always(a_page()), key=key)

    assert caught.value.reason == "MarketKeyRefused"


async def test_a_line_break_after_the_key_is_forgiven() -> None:
    market = always(a_page())

    await a_market(market, key=f"{KEY}\n").machines()

    assert market.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_reading_again_is_bounded() -> None:
    market = always("<html>maintenance</html>")

    with pytest.raises(TryLater):
        await a_market(market).account_id()

    assert len(market.requests) == 3


@pytest.mark.parametrize(
    "repeated",
    [
        URL_OF_A_MACHINE,
        URL_OF_A_MACHINE.replace("/", "\\/"),
        URL_OF_A_MACHINE.replace("/", "&#x2F;"),
        URL_OF_A_MACHINE.replace("/", "%2F"),
        "workers/secret-token-of-a-machine",
    ],
    ids=["as it is", "as JSON may have it", "as HTML", "as in a query", "in part"],
)
async def test_a_machines_token_is_hidden_however_it_is_repeated(repeated: str) -> None:
    client = a_market(always(f"<html>bad order: {repeated}</html>", status=400))

    with pytest.raises(FleetAgentError) as caught:
        await client.launch(an_order(env={"FLEETAGENT_URL": URL_OF_A_MACHINE}))

    assert "secret-token-of-a-machine" not in str(caught.value)
