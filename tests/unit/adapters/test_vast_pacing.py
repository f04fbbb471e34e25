"""One pacer for all: intervals, back-off after a 429, and an end to patience."""

import asyncio

import httpx
import pytest

from fleetagent.adapters.vast import DEFAULT_LIMITS, Endpoint, Limit, Pacer
from fleetagent.domain.resource import OfferFilter
from fleetagent.errors import TryLater
from support.vast import Time, a_pacer, a_page, always, markets_on

EVERY_4_S = {Endpoint.CREATE: Limit(1, 4.0)}


async def test_calls_of_one_kind_and_key_keep_their_interval() -> None:
    time = Time()
    pacer = a_pacer(time, EVERY_4_S)
    began = []
    for _ in range(3):
        await pacer.turn("key", Endpoint.CREATE)
        began.append(time.now)

    assert began == [1000, 1004, 1008]


async def test_other_keys_and_other_calls_do_not_wait() -> None:
    time = Time()
    pacer = a_pacer(time, EVERY_4_S)

    await pacer.turn("key", Endpoint.CREATE)
    await pacer.turn("other key", Endpoint.CREATE)
    await pacer.turn("key", Endpoint.DESTROY)

    assert time.slept == []


async def test_who_comes_together_is_served_one_after_another() -> None:
    time = Time()
    pacer = a_pacer(time, EVERY_4_S)
    began: list[tuple[int, float]] = []

    async def call(number: int) -> None:
        await pacer.turn("key", Endpoint.CREATE)
        began.append((number, time.now))

    await asyncio.gather(*(call(number) for number in range(4)))

    assert began == [(0, 1000), (1, 1004), (2, 1008), (3, 1012)]


async def test_several_calls_within_a_window_need_not_be_spread_over_it() -> None:
    time = Time()
    pacer = a_pacer(time, {Endpoint.SEARCH: Limit(10, 20.0)})
    for _ in range(10):
        await pacer.turn("key", Endpoint.SEARCH)
    assert time.slept == []

    time.now += 5
    await pacer.turn("key", Endpoint.SEARCH)
    assert time.slept == [15]


async def test_backing_off_doubles_up_to_two_minutes_and_ends_with_success() -> None:
    time = Time()
    pacer = a_pacer(time)
    waits = []
    for _ in range(5):
        waits.append(pacer.refused("key", Endpoint.LIST, None))
        time.now += waits[-1]
    assert waits == [15, 30, 60, 120, 120]

    pacer.served("key", Endpoint.LIST)
    assert pacer.refused("key", Endpoint.LIST, None) == 15


async def test_calls_refused_together_back_off_once() -> None:
    pacer = a_pacer()

    assert [pacer.refused("key", Endpoint.LIST, None) for _ in range(3)] == [15, 15, 15]


async def test_a_short_back_off_is_slept_through_and_a_long_one_is_told() -> None:
    time = Time()
    pacer = a_pacer(time)
    pacer.refused("key", Endpoint.LIST, 20)
    await pacer.turn("key", Endpoint.LIST)
    assert time.now == 1020

    pacer.refused("key", Endpoint.LIST, 31)
    with pytest.raises(TryLater) as caught:
        await pacer.turn("key", Endpoint.LIST)
    assert caught.value.retry_after_seconds == 31
    assert time.now == 1020


async def test_a_429_that_another_caller_meets_holds_back_those_who_wait_already() -> None:
    time = Time()
    refusals = iter([25.0])

    async def sleep(seconds: float) -> None:
        time.now += seconds
        for wait in refusals:
            pacer.refused("key", Endpoint.CREATE, wait)

    pacer = Pacer(EVERY_4_S, clock=time, wall_clock=time, sleep=sleep)
    await pacer.turn("key", Endpoint.CREATE)
    await pacer.turn("key", Endpoint.CREATE)

    assert time.now == 1000 + 4 + 25


async def test_nobody_joins_a_queue_that_is_longer_than_patience() -> None:
    time = Time()
    pacer = a_pacer(time, EVERY_4_S)

    outcomes = await asyncio.gather(*(pacer.turn("key", Endpoint.CREATE) for _ in range(12)), return_exceptions=True)

    assert [outcome is None for outcome in outcomes] == [True] * 8 + [False] * 4
    assert all(isinstance(outcome, TryLater) for outcome in outcomes[8:])


async def test_a_caller_that_gives_up_leaves_the_queue() -> None:
    pacer = Pacer(EVERY_4_S)
    await pacer.turn("key", Endpoint.CREATE)
    waiting = asyncio.create_task(pacer.turn("key", Endpoint.CREATE))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert pacer._slots["key", Endpoint.CREATE].waiting == 0
    assert not pacer._slots["key", Endpoint.CREATE].queue.locked()


async def test_markets_with_one_key_share_their_pace() -> None:
    time = Time()
    markets = markets_on(always(a_page()), pacer=a_pacer(time, {Endpoint.LIST: Limit(1, 1.1)}))
    for _ in range(10):
        await markets.market(api_key="k", base_url="http://m", worker_url_env="U").machines()

    assert time.now == pytest.approx(1000 + 9 * 1.1)


async def test_the_daily_quota_of_searches_lasts_until_midnight_and_for_one_account_only() -> None:
    time = Time(86_400 - 600)  # 23:50 UTC
    spent = httpx.Response(429, json={"success": False, "error": "search_quota_exceeded"})
    market = always(spent, {"offers": []})
    markets = markets_on(market, pacer=a_pacer(time), time=time)
    one, other = (markets.market(api_key=key, base_url="http://m", worker_url_env="U") for key in ("k1", "k2"))
    for _ in range(2):
        with pytest.raises(TryLater) as caught:
            await one.offers(OfferFilter(), 250)
        assert caught.value.retry_after_seconds == 600
    assert len(market.requests) == 1

    await other.offers(OfferFilter(), 250)
    time.now += 600
    await one.offers(OfferFilter(), 250)
    assert len(market.requests) == 3


def test_the_defaults_are_no_faster_than_the_market_allows() -> None:
    documented = {"create": 4.5, "destroy": 3, "show": 2, "list": 1, "search": 6}

    for name, seconds in documented.items():
        limit = DEFAULT_LIMITS[Endpoint(name)]
        assert limit.seconds / limit.calls >= seconds
