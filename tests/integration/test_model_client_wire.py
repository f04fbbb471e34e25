"""The client against what breaks below HTTP, and below JSON, over real sockets."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2
import pytest

from fleetagent.adapters.model.client import model_http_client
from fleetagent.adapters.model.payload import Habits
from fleetagent.domain.model import Usage
from fleetagent.errors import BadResource, TryLater
from support.model_client import Clock, asking, model


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with model_http_client() as client:
        yield client


@asynccontextmanager
async def raw_server(*answers: bytes, seconds_between_bytes: float = 0.0) -> AsyncIterator[str]:
    """Sends these bytes, one answer per connection, the last one for ever, and hangs up."""
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        await reader.readuntil(b"\r\n\r\n")
        answer = answers[min(served, len(answers) - 1)]
        served += 1
        try:
            for piece in [answer] if not seconds_between_bytes else (answer[i : i + 1] for i in range(len(answer))):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(seconds_between_bytes)
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


async def test_a_body_that_trickles_in_is_bounded_by_the_clock_on_the_wall(http: httpx2.AsyncClient) -> None:
    started = time.monotonic()
    async with raw_server(http_answer("200 OK", GOOD), seconds_between_bytes=0.05) as url:
        with pytest.raises(TryLater, match="no whole answer within"):
            await model(url, http).reply(asking(timeout=timedelta(seconds=0.5)))

    assert time.monotonic() - started < 2


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
