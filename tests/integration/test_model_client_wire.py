"""The client against what breaks below HTTP, and below JSON, over real sockets."""

import asyncio
import json
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import httpx2
import pytest

from fleetagent.adapters.model import bounded
from fleetagent.adapters.model.client import model_http_client
from fleetagent.adapters.model.payload import Habits
from fleetagent.domain.model import Usage
from fleetagent.errors import BadReply, BadResource, TryLater
from support.model_client import Clock, asking, model


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with model_http_client() as client:
        yield client


@asynccontextmanager
async def raw_server(
    *answers: bytes, seconds_between_bytes: float = 0.0, then_silent: bool = False, heads: list[bytes] | None = None
) -> AsyncIterator[str]:
    """Sends these bytes, one answer per connection, the last one for ever, and hangs up, or says no more.

    What was asked is added to `heads`, without its body.
    """
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        head = await reader.readuntil(b"\r\n\r\n")
        if heads is not None:
            heads.append(head.lower())
        answer = answers[min(served, len(answers) - 1)]
        served += 1
        try:
            for piece in [answer] if not seconds_between_bytes else (answer[i : i + 1] for i in range(len(answer))):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(seconds_between_bytes)
            if then_silent:
                await reader.read()  # until the client leaves
        except ConnectionError:
            pass  # the client left: that is what some tests are about
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"


def http_answer(status: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body) if length is None else length}", *headers]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body


GOOD = json.dumps({"choices": [{"message": {"content": "hold"}, "finish_reason": "stop"}]}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no HTTP at all\r\n\r\n",
        http_answer("200 OK", GOOD[:20], length=len(GOOD)),
        http_answer("200 OK", b"\x1f\x8b broken", "content-encoding: gzip"),
        http_answer("200 OK", b"\xff\xfe\xfa"),
        http_answer("503 Service Unavailable", b"\xff\xfe"),
        http_answer("502 Bad Gateway", b"<html>bad</html>", "content-type: text/html"),
    ],
    ids=["hangs up", "no HTTP", "cut off", "broken gzip", "no UTF-8", "no UTF-8 in an error", "HTML"],
)
async def test_what_breaks_below_json_is_asked_for_again(answer: bytes, http: httpx2.AsyncClient) -> None:
    async with raw_server(answer, http_answer("200 OK", GOOD)) as url:
        reply = await model(url, http, timing=Clock().timing).reply(asking())

    assert (reply.text, reply.usage) == ("hold", Usage())


@pytest.mark.parametrize(
    ("answer", "between", "then_silent"),
    [
        (b"", 0.0, True),
        (http_answer("200 OK", b"", length=100), 0.0, True),
        (http_answer("200 OK", GOOD[:20], length=len(GOOD)), 0.0, True),
        (http_answer("200 OK", GOOD), 0.2, False),
    ],
    ids=["never answers", "headers and no more", "stops in the middle", "a byte now and then"],
)
async def test_a_server_that_stalls_is_left_by_the_clock_on_the_wall_and_holds_up_nobody_else(
    answer: bytes, between: float, http: httpx2.AsyncClient, *, then_silent: bool
) -> None:
    stalling = raw_server(answer, seconds_between_bytes=between, then_silent=then_silent)
    started = time.monotonic()
    async with stalling as url, raw_server(http_answer("200 OK", GOOD)) as other_url:
        stuck = asyncio.create_task(model(url, http).reply(asking(timeout=timedelta(seconds=3))))
        for _ in range(10):
            assert (await model(other_url, http).reply(asking())).text == "hold"
        assert not stuck.done()
        with pytest.raises(TryLater, match="no whole answer within"):
            await stuck

    assert time.monotonic() - started < 30


@pytest.mark.parametrize("headers", [[], ["content-encoding: gzip"]], ids=["plain", "packed"])
async def test_an_answer_without_an_end_fills_no_memory(
    headers: list[str], http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "LARGEST_ANSWER_BYTES", 5_000_000)
    monkeypatch.setattr(bounded, "LARGEST_COMPRESSED_BYTES", 50_000)
    body = zlib.compress(b" " * 60_000_000, wbits=31) if headers else b" " * 6_000_000
    tracemalloc.start()
    try:
        async with raw_server(http_answer("200 OK", body, *headers, length=10**12)) as url:
            with pytest.raises(BadReply, match="more than any reply can be, twice"):
                await model(url, http, timing=Clock().timing).reply(asking())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 60_000_000 + len(body)


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd"])
async def test_an_answer_that_is_packed_as_nobody_asked_is_not_unpacked(coding: str, http: httpx2.AsyncClient) -> None:
    body = zlib.compress(zlib.compress(b" " * 60_000_000, wbits=31), wbits=31)
    tracemalloc.start()
    try:
        async with raw_server(http_answer("200 OK", body, f"content-encoding: {coding}")) as url:
            with pytest.raises(BadReply, match="more than any reply can be, twice"):
                await model(url, http, timing=Clock().timing).reply(asking())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 5_000_000


async def test_the_largest_answer_that_is_read_fills_no_memory_as_json_either(http: httpx2.AsyncClient) -> None:
    body = b'{"choices":[' + b"[]," * ((bounded.LARGEST_ANSWER_BYTES - 20) // 3) + b"[]]}"
    tracemalloc.start()
    try:
        async with raw_server(http_answer("200 OK", body)) as url:
            with pytest.raises(BadReply, match="no choices, twice"):
                await model(url, http, timing=Clock().timing).reply(asking())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 200_000_000


async def test_a_date_that_no_calendar_holds_breaks_no_run(http: httpx2.AsyncClient) -> None:
    never = "retry-after: Fri, 31 Dec 99999999999999 23:59:59 GMT"
    async with raw_server(
        http_answer("429 Too Many Requests", b"slow down", never), http_answer("200 OK", GOOD)
    ) as url:
        assert (await model(url, http, timing=Clock().timing).reply(asking())).text == "hold"


async def test_a_cookie_that_one_agent_was_given_is_not_sent_with_the_key_of_another(http: httpx2.AsyncClient) -> None:
    heads: list[bytes] = []
    async with raw_server(http_answer("200 OK", GOOD, "set-cookie: session=of-a; path=/"), heads=heads) as url:
        for key in ("key-of-a", "key-of-b"):
            assert (await model(url, http, api_key=key).reply(asking())).text == "hold"

    assert [b"cookie" in head for head in heads] == [False, False]
    assert b"key-of-b" in heads[1]


HOUR = "1795003600"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (["retry-after: 3600"], 3600),
        (["Retry-After: Wed, 18 Nov 2026 12:06:40 GMT"], 3600),
        (["retry-after-ms: 3600000"], 3600),
        ([f"x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: {HOUR}"], 3600),
        (["retry-after: Wed, 18 Nov 2020 13:06:40 GMT"], None),
        (["retry-after: -1"], None),
        ([], None),
    ],
    ids=str,
)
async def test_the_wait_that_a_server_asks_for_leaves_with_the_error(
    headers: list[str], seconds: float | None, http: httpx2.AsyncClient
) -> None:
    timing = replace(Clock().timing, epoch=lambda: float(HOUR) - 3600)
    async with raw_server(http_answer("429 Too Many Requests", b"slow down", *headers)) as url:
        with pytest.raises(TryLater) as caught:
            await model(url, http, timing=timing).reply(asking())

    assert caught.value.retry_after_seconds == seconds


async def test_a_redirect_is_not_followed(http: httpx2.AsyncClient) -> None:
    answer = http_answer("307 Temporary Redirect", b"", "location: http://127.0.0.1:9/elsewhere")
    async with raw_server(answer) as url:
        with pytest.raises(BadResource) as caught:
            await model(url, http).reply(asking())

    assert caught.value.reason == "BadURL"


async def test_a_closed_port_is_tried_until_patience_ends(http: httpx2.AsyncClient) -> None:
    async with raw_server(b"") as url:
        pass
    clock = Clock()

    with pytest.raises(TryLater, match="Unreachable"):
        await model(url, http, timing=clock.timing, patience=timedelta(seconds=30)).reply(asking())

    assert 15 < sum(clock.waits) <= 30


async def test_what_an_endpoint_refused_once_is_not_sent_again(http: httpx2.AsyncClient) -> None:
    refusal = {"error": {"message": "no", "param": "max_tokens", "code": "unsupported_parameter"}}
    habits = Habits()
    bad = http_answer("400 Bad Request", json.dumps(refusal).encode())
    async with raw_server(bad, http_answer("200 OK", GOOD)) as url:
        await model(url, http, habits=habits).reply(asking())

    assert habits.output_field == "max_completion_tokens"


async def test_an_error_carries_no_password_of_the_address(http: httpx2.AsyncClient) -> None:
    async with raw_server(http_answer("404 Not Found", b"nothing at user:pass-word-1")) as url:
        with pytest.raises(BadResource) as caught:
            await model(url.replace("//", "//user:pass-word-1@"), http).reply(asking())

    assert "pass-word-1" not in str(caught.value)
