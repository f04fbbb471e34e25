"""The key, other secrets, cookies, redirects and sizes: what never crosses the border."""

import asyncio
import gzip
import html
import json
import logging
import traceback
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        await a_market(market).account()

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


def a_bomb(unpacked_bytes: int) -> bytes:
    return gzip.compress(b" " * unpacked_bytes)


class Raw(httpx.AsyncByteStream):
    """Bytes as a socket gives them, and how many were taken."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.content), 65_536):
            yield self.content[start : start + 65_536]


async def test_a_packed_answer_is_read() -> None:
    page = gzip.compress(json.dumps(a_page()).encode())
    packed = {"Content-Encoding": "gzip"}

    assert await a_market(lambda _: httpx.Response(200, headers=packed, stream=Raw(page))).machines() == ()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate", "gzip, gzip", "br", "zstd", "unheard-of"])
async def test_an_answer_that_unpacks_without_end_fills_no_memory(coding: str) -> None:
    bomb = a_bomb(400_000_000) if "g" in coding.lower() else zlib.compress(b" " * 400_000_000)
    market = Recorded(lambda _: httpx.Response(200, headers={"Content-Encoding": coding}, stream=Raw(bomb)))
    client = a_market(market)
    tracemalloc.start()

    with pytest.raises(FleetUnreadable):
        await client.machines()

    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * MAX_ANSWER_BYTES


async def test_only_what_we_can_unpack_is_asked_for() -> None:
    market = always(a_page())
    await a_market(market).machines()

    assert market.requests[0].headers["Accept-Encoding"] == "gzip"


KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=12, max_size=64)
REPEATED: tuple[Callable[[str], str], ...] = (
    str,
    json.dumps,
    html.escape,
    quote,
    lambda key: quote(key, safe=""),
    lambda key: f"Bearer {key}, api_key={key}",
)


@given(KEYS, st.sampled_from(REPEATED), st.sampled_from([200, 400, 401, 404, 429, 500]), st.booleans())
def test_no_key_whatever_its_characters_is_in_a_url_an_error_or_a_repr(
    key: str,
    repeat: Callable[[str], str],
    status: int,
    as_json: bool,  # noqa: FBT001 - drawn
) -> None:
    said = repeat(key)
    answer = json.dumps({"success": False, "error": said, "msg": said, "detail": f"x{said}y"}) if as_json else said
    market = always(answer, status=status)
    client = a_market(market, key=key)
    with pytest.raises(FleetAgentError) as caught:
        asyncio.run(client.launch(an_order()))

    shown = [str(caught.value), repr(caught.value), repr(client), *traceback.format_exception(caught.value)]
    shown += [str(request.url) for request in market.requests] + [r.content.decode() for r in market.requests]
    assert not [text for text in shown if key in text or quote(key, safe="") in text]


@given(KEYS)
def test_no_key_is_logged(key: str) -> None:
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with pytest.raises(FleetAgentError):
            asyncio.run(a_market(always(f"<html>{key}</html>", status=500), key=key).account())
    finally:
        root.removeHandler(handler)
        root.setLevel(before)

    assert not [text for text in logged if key in text]


async def test_a_certificate_that_nobody_vouches_for_is_an_error_and_sends_nothing() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate", request=request)

    client = a_market(handler, base_url="https://market.test")
    with pytest.raises(TryLater, match="CERTIFICATE_VERIFY_FAILED"):
        await client.launch(an_order())
    with pytest.raises(FleetUnreadable, match="CERTIFICATE_VERIFY_FAILED"):
        await client.machines()
