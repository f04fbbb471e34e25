"""Demand from a URL or from the resource: strictly read, and unknown rather than guessed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from fleetagent.adapters.demand.http import HttpSource
from fleetagent.adapters.demand.static import StaticSource
from fleetagent.domain.demand import Demand, stale
from fleetagent.errors import BadResource, TryLater
from support.vast import Handler, Recorded, always, failing

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
URL = "http://user:pa55word@demand.test/now?token=t0ken"


def source(handler: Handler, *, timeout_seconds: float = 10.0) -> HttpSource:
    return HttpSource(
        httpx.AsyncClient(transport=httpx.MockTransport(handler), follow_redirects=True),
        URL,
        timeout_seconds=timeout_seconds,
        now=lambda: NOON,
    )


@pytest.mark.parametrize("active", [True, False])
async def test_static_demand_is_what_the_resource_says(active: bool) -> None:  # noqa: FBT001
    assert await StaticSource(active).demand() == Demand(active=active)


@pytest.mark.parametrize(
    ("answer", "demand"),
    [
        (
            {"active": True, "queued": 12, "arrivalPerHour": 480.5},
            Demand(active=True, queued=12, arrival_per_hour=480.5),
        ),
        ({"active": False, "queued": 0, "arrivalPerHour": 0}, Demand(active=False, queued=0, arrival_per_hour=0.0)),
        ({"active": True}, Demand(active=True)),
        ({"active": True, "queued": None, "arrivalPerHour": None, "more": []}, Demand(active=True)),
    ],
)
async def test_an_answer_is_read(answer: Any, demand: Demand) -> None:
    assert await source(always(answer)).demand() == demand


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        "",
        "null",
        "true",
        "<html>",
        b"\xff\xfe",
        "[" * 60_000,
        {"queued": 1},
        {"active": None},
        {"active": "true"},
        {"active": "false"},
        {"active": 1},
        {"active": 0},
        {"active": []},
        {"active": True, "queued": "12"},
        {"active": True, "queued": 1.5},
        {"active": True, "queued": 1.0},
        {"active": True, "queued": True},
        {"active": True, "queued": -1},
        {"active": True, "queued": 10**15},
        '{"active": true, "queued": NaN}',
        {"active": True, "arrivalPerHour": "480"},
        {"active": True, "arrivalPerHour": False},
        {"active": True, "arrivalPerHour": -0.1},
        '{"active": true, "arrivalPerHour": NaN}',
        '{"active": true, "arrivalPerHour": Infinity}',
        '{"active": true, "arrivalPerHour": 1e400}',
        {"active": True, "arrivalPerHour": 10**400},
        {"active": True, "arrivalPerHour": {}},
    ],
    ids=lambda answer: str(answer)[:40],
)
async def test_an_answer_of_another_shape_makes_demand_unknown(answer: Any) -> None:
    with pytest.raises(TryLater):
        await source(always(answer)).demand()


@pytest.mark.parametrize("status", [201, 204, 301, 307, 401, 404, 429, 500, 503])
async def test_any_status_but_200_makes_demand_unknown_and_no_redirect_is_followed(status: int) -> None:
    answer = httpx.Response(status, json={"active": True}, headers={"Location": "http://169.254.169.254/"})
    server = always(answer)

    with pytest.raises(TryLater, match=str(status)):
        await source(server).demand()

    assert [request.url.host for request in server.requests] == ["demand.test"]


@pytest.mark.parametrize(
    "error", [httpx.ConnectError, httpx.ReadTimeout, httpx.RemoteProtocolError, httpx.DecodingError]
)
async def test_a_source_that_breaks_makes_demand_unknown_and_its_url_stays_private(
    error: type[httpx.HTTPError],
) -> None:
    with pytest.raises(TryLater) as caught:
        await source(failing(error)).demand()

    assert error.__name__ in str(caught.value)
    assert "pa55word" not in str(caught.value)
    assert "t0ken" not in str(caught.value)


class Spaces(httpx.AsyncByteStream):
    """Spaces without end, so many at once, with a breath between."""

    def __init__(self, at_once: int) -> None:
        self._chunk = b" " * at_once

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.001)
            yield self._chunk


async def test_an_answer_that_is_too_large_makes_demand_unknown() -> None:
    server = Recorded(lambda _: httpx.Response(200, stream=Spaces(at_once=4096)))

    with pytest.raises(TryLater, match="more than 65536 bytes"):
        await source(server).demand()


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "zstd"])
async def test_a_packed_answer_makes_demand_unknown_and_is_never_unpacked(coding: str) -> None:
    server = Recorded(lambda _: httpx.Response(200, headers={"Content-Encoding": coding}, stream=Spaces(at_once=4096)))

    with pytest.raises(TryLater, match="packs its answer"):
        await source(server).demand()

    assert server.requests[0].headers["Accept-Encoding"] == "identity"


async def test_an_answer_that_drips_is_given_up_as_a_whole() -> None:
    server = Recorded(lambda _: httpx.Response(200, stream=Spaces(at_once=1)))

    with pytest.raises(TryLater, match=r"does not answer within 0\.05 s"):
        await source(server, timeout_seconds=0.05).demand()


async def test_a_url_that_is_none_makes_demand_unknown() -> None:
    http = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200)))

    with pytest.raises(TryLater):
        await HttpSource(http, "http://[::", now=lambda: NOON).demand()


@pytest.mark.parametrize("observed", ["2026-11-29T11:55:00Z", "2026-11-29T13:05:00+01:00", "2026-11-29T12:04:59.5Z"])
async def test_a_source_may_say_when_it_looked(observed: str) -> None:
    assert await source(always({"active": True, "observedAt": observed})).demand() == Demand(active=True)


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        ("2026-11-29T11:54:59Z", "5 min old"),
        ("2026-11-28T12:00:00Z", "1440 min old"),
        ("2027-01-01T00:00:00Z", "ahead"),
    ],
)
async def test_what_a_source_saw_long_ago_makes_demand_unknown(observed: str, words: str) -> None:
    with pytest.raises(BadResource, match=words) as caught:
        await source(always({"active": True, "observedAt": observed})).demand()

    assert (caught.value.condition, caught.value.reason) == ("DemandKnown", "DemandStale")
    assert str(caught.value).startswith("spec.demand.http.url: ")


@pytest.mark.parametrize("observed", ["now", "2026-11-29T12:00:00", 1764417600, "", True, [], "9" * 400])
async def test_a_moment_that_is_none_makes_demand_unknown(observed: Any) -> None:
    with pytest.raises(TryLater, match="observedAt"):
        await source(always({"active": True, "observedAt": observed})).demand()


@pytest.mark.parametrize(
    ("age", "is_stale"), [("0", False), ("300", False), ("301", True), ("9" * 400, True), ("x", False)]
)
async def test_what_a_cache_has_kept_for_minutes_makes_demand_unknown(age: str, *, is_stale: bool) -> None:
    answer = always(httpx.Response(200, json={"active": True}, headers={"Age": age}))

    if is_stale:
        with pytest.raises(BadResource, match="a cache answered"):
            await source(answer).demand()
    else:
        assert (await source(answer).demand()).active


def test_the_border_of_freshness_is_fresh_on_both_sides() -> None:
    span = timedelta(minutes=5)

    assert stale(NOON - span, NOON) is None
    assert stale(NOON + span, NOON) is None
    assert "more than 5 min are too much" in (stale(NOON - span - timedelta(seconds=1), NOON) or "")
    assert "set the clocks right" in (stale(NOON + span + timedelta(seconds=1), NOON) or "")
