"""Demand from an HTTP server that answers byte for byte as Prometheus does, or misbehaves as a test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from fleetagent.adapters.demand.prometheus import PrometheusSource
from fleetagent.domain.demand import Demand
from fleetagent.errors import BadResource, FleetAgentError, TryLater

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
AT_NOON = NOON.timestamp() + 0.123
QUERY = 'sum(curio_psvc_proofshare_queue_count{job="curio"}) + 0'
MORE_THAN_ENOUGH_SECONDS = 20.0
JSON_TYPE = "application/json"


def head(status: str, *, content_type: str = JSON_TYPE, more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{more}".encode()


def whole(body: str | bytes, status: str = "200 OK", **headers: Any) -> list[bytes]:
    """One complete response."""
    content = body.encode() if isinstance(body, str) else body
    return [head(status, **headers) + f"Content-Length: {len(content)}\r\n\r\n".encode() + content]


def success(kind: Any, result: Any, **more: Any) -> list[bytes]:
    body = {"status": "success", "data": {"resultType": kind, "result": result}, **more}
    return whole(json.dumps(body, separators=(",", ":")))


def vector(*values: str, at: float = AT_NOON) -> list[bytes]:
    return success("vector", [{"metric": {"instance": f"n{i}"}, "value": [at, v]} for i, v in enumerate(values)])


def error(status: str, kind: Any, words: str) -> list[bytes]:
    return whole(json.dumps({"status": "error", "errorType": kind, "error": words}), status)


@dataclass
class FakePrometheus:
    """A server on a port of its own: says `chunks` to whoever asks, then closes, or keeps the line and says no more."""

    chunks: list[bytes] = field(default_factory=list)
    keeps_the_line: bool = False
    endless: bytes = b""
    asked: list[str] = field(default_factory=list)
    port: int = 0
    lines: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(request.decode().partition("\r\n")[0])
            for chunk in self.chunks:
                writer.write(chunk)
                await writer.drain()
            while self.endless:
                writer.write(self.endless)
                await writer.drain()
                await asyncio.sleep(0.001)
            if self.keeps_the_line:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other side had enough
        finally:
            writer.close()

    async def demand(self, *, path: str = "", timeout_seconds: float = 5.0) -> Demand:
        """One look at this server."""
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=True) as http,
            asyncio.timeout(MORE_THAN_ENOUGH_SECONDS),
        ):
            url = f"http://127.0.0.1:{self.port}{path}"
            source = PrometheusSource(http, url, QUERY, timeout_seconds=timeout_seconds, now=lambda: NOON)
            return await source.demand()

    async def failure(self, **more: Any) -> FleetAgentError:
        with pytest.raises(FleetAgentError) as caught:
            await self.demand(**more)
        assert "127.0.0.1" not in str(caught.value)
        return caught.value


@pytest.fixture
async def prometheus() -> AsyncIterator[FakePrometheus]:
    fake = FakePrometheus()
    server = await asyncio.start_server(fake.accept, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    yield fake
    server.close()
    for line in fake.lines:
        line.cancel()
    await asyncio.gather(*fake.lines, return_exceptions=True)


@pytest.mark.parametrize(
    ("answer", "demand"),
    [
        (vector("12"), Demand(active=True, queued=12)),
        (vector("0"), Demand(active=False, queued=0)),
        (vector("0.25"), Demand(active=True, queued=1)),
        (vector("1.5e+03"), Demand(active=True, queued=1500)),
        (vector("-0"), Demand(active=False, queued=0)),
        (success("scalar", [AT_NOON, "42"]), Demand(active=True, queued=42)),
        (vector("7", at=NOON.timestamp() - 300), Demand(active=True, queued=7)),
        (success("vector", [{"metric": {}, "value": [1795953600, "3"]}], infos=["a note"]), Demand(True, 3)),
    ],
    ids=["some", "none", "a part of one", "many", "minus nothing", "scalar", "five minutes old", "with a note"],
)
async def test_one_number_is_what_waits_and_above_nothing_demand_is_active(
    prometheus: FakePrometheus, answer: list[bytes], demand: Demand
) -> None:
    prometheus.chunks = answer

    assert await prometheus.demand() == demand


@pytest.mark.parametrize("path", ["", "/", "/prometheus", "/select/0/prometheus/"])
async def test_the_query_is_asked_for_now_below_whatever_base_the_url_has(
    prometheus: FakePrometheus, path: str
) -> None:
    prometheus.chunks = vector("1")

    await prometheus.demand(path=path)

    (line,) = prometheus.asked
    method, target, _ = line.split(" ")
    asked = urlsplit(target)
    assert (method, asked.path) == ("GET", f"{path.rstrip('/')}/api/v1/query")
    assert parse_qs(asked.query) == {"query": [QUERY], "timeout": ["3s"]}


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (success("vector", []), "NoSample", "gives no series now"),
        (vector("1", "2"), "QueryUnusable", "gives 2 series, not one number: put it into sum()"),
        (vector("NaN"), "QueryUnusable", "gives NaN"),
        (vector("+Inf"), "QueryUnusable", "gives +Inf"),
        (vector("-Inf"), "QueryUnusable", "gives -Inf"),
        (vector("-1"), "QueryUnusable", "gives -1, which is no number of proofs"),
        (vector("1e+300"), "QueryUnusable", "gives 1e+300"),
        (success("scalar", [AT_NOON, "NaN"]), "QueryUnusable", "gives NaN"),
        (success("matrix", [{"metric": {}, "values": [[AT_NOON, "1"]]}]), "QueryUnusable", "gives a matrix"),
        (success("string", [AT_NOON, "12"]), "QueryUnusable", "gives a string"),
        (success(["vector"], []), "QueryUnusable", "gives a ('vector'), not a number"),
        (
            success("vector", [{"metric": {}, "histogram": [AT_NOON, {"count": "2", "sum": "3"}]}]),
            "QueryUnusable",
            "gives a histogram",
        ),
        (
            error(
                "400 Bad Request", "bad_data", 'invalid parameter "query": 1:5: parse error: unclosed left parenthesis'
            ),
            "QueryRefused",
            "Prometheus refuses it: invalid parameter",
        ),
        (
            error("422 Unprocessable Entity", "execution", "multiple matches for labels: many-to-one matching must be"),
            "QueryRefused",
            "many-to-one matching",
        ),
        (vector("7", at=NOON.timestamp() - 301), "DemandStale", "the sample is 5 min old"),
        (vector("0", at=NOON.timestamp() - 7200), "DemandStale", "the sample is 120 min old"),
        (vector("7", at=NOON.timestamp() + 301), "DemandStale", "ahead of the operator's clock"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_the_owner_can_mend_has_a_reason_and_names_the_field(
    prometheus: FakePrometheus, answer: list[bytes], reason: str, words: str
) -> None:
    prometheus.chunks = answer

    failure = await prometheus.failure()

    assert isinstance(failure, BadResource)
    assert (failure.condition, failure.reason) == ("DemandKnown", reason)
    assert str(failure).startswith("spec.demand.prometheus.")
    assert words in str(failure)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error("503 Service Unavailable", "timeout", "query timed out in expression evaluation"), "query timed out"),
        (error("500 Internal Server Error", "internal", "the disk is full"), "answered 500: the disk is full"),
        (error("200 OK", "internal", "an error by body"), "an error by body"),
        (error("200 OK", {"bad_data": []}, "a type that is none"), "a type that is none"),
        (whole("404 page not found\n", "404 Not Found", content_type="text/plain"), "answered 404, not 200"),
        (whole("<html>Bad Gateway</html>", "502 Bad Gateway", content_type="text/html"), "answered 502, not 200"),
        (whole("<html>Log in</html>", content_type="text/html"), "something else than JSON"),
        (whole("", "204 No Content"), "answered 204"),
        (whole('{"active": true}'), "does not answer as Prometheus does"),
        (whole("[]"), "does not answer as Prometheus does"),
        (whole('{"status":"success"}'), "does not answer as Prometheus does"),
        (success("vector", [{"metric": {}}]), "no time or no number"),
        (success("vector", ["12"]), "no time or no number"),
        (success("vector", [{"value": [AT_NOON, 12]}]), "no time or no number"),
        (success("vector", [{"value": [AT_NOON, "many"]}]), "no time or no number"),
        (success("vector", [{"value": [1e300, "1"]}]), "no time or no number"),
        (success("scalar", []), "no time or no number"),
        (success("vector", [{"value": [AT_NOON, "0"]}], warnings=["1 store is away"]), "may lack something: 1 store"),
        ([head("200 OK") + b"Content-Length: 500\r\n\r\n" + b'{"status":"success"'], "does not answer: RemoteProtocol"),
        ([b"\x16\x03\x01\x02nonsense\r\n\r\n"], "does not answer: RemoteProtocolError"),
        ([], "does not answer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_server_that_fails_or_is_none_is_unknown(
    prometheus: FakePrometheus, answer: list[bytes], words: str
) -> None:
    prometheus.chunks = answer

    failure = await prometheus.failure()

    assert isinstance(failure, TryLater)
    assert words in str(failure)


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"])
async def test_no_redirect_is_followed(prometheus: FakePrometheus, status: str) -> None:
    prometheus.chunks = whole("", status, more=f"Location: http://127.0.0.1:{prometheus.port}/inside\r\n")

    failure = await prometheus.failure()

    assert status[:3] in str(failure)
    assert len(prometheus.asked) == 1


def silent(fake: FakePrometheus) -> None:
    fake.keeps_the_line = True


def silent_after_its_head(fake: FakePrometheus) -> None:
    fake.chunks, fake.keeps_the_line = [head("200 OK") + b"Content-Length: 80\r\n\r\n"], True


def dripping(fake: FakePrometheus) -> None:
    fake.chunks, fake.endless = [head("200 OK") + b"\r\n"], b" "


@pytest.mark.parametrize("misbehave", [silent, silent_after_its_head, dripping])
async def test_a_server_that_keeps_one_waiting_is_given_up_as_a_whole(
    prometheus: FakePrometheus, misbehave: Callable[[FakePrometheus], None]
) -> None:
    misbehave(prometheus)

    failure = await prometheus.failure(timeout_seconds=0.3)

    assert isinstance(failure, TryLater)
    assert "does not answer" in str(failure)


async def test_an_answer_without_end_is_cut_off(prometheus: FakePrometheus) -> None:
    prometheus.chunks, prometheus.endless = [head("200 OK") + b"\r\n"], b" " * 16_384

    failure = await prometheus.failure()

    assert "more than 65536 bytes" in str(failure)


async def test_nobody_at_the_address_is_unknown(unused_tcp_port: int) -> None:
    failure = await FakePrometheus(port=unused_tcp_port).failure()

    assert isinstance(failure, TryLater)
    assert "does not answer: ConnectError" in str(failure)


async def test_words_of_the_server_reach_the_condition_as_one_harmless_line(prometheus: FakePrometheus) -> None:
    prometheus.chunks = error("400 Bad Request", "bad_data", "bad\n<|im_start|>system\x00\u202e" + "x" * 5000)

    words = str(await prometheus.failure())

    assert len(words) < 400
    assert "\n" not in words
    assert "<|" not in words
