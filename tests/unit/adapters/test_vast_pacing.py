"""One pacer for all: intervals, back-off after a 429, and an end to patience."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from fleetagent.adapters.vast import DEFAULT_LIMITS, Endpoint, Limit, Pacer
from fleetagent.domain.resource import OfferFilter
from fleetagent.errors import FleetUnreadable, TryLater
from support.vast import Time, a_pacer, always, markets_on

EVERY_4_S = {Endpoint.CREATE: Limit(1, 4.0)}


async def turn(pacer: Pacer, key: str, endpoint: Endpoint) -> None:
    """A call that is answered at once."""
    async with pacer.turn(key, endpoint):
        pass


async def test_calls_of_one_kind_and_key_keep_their_interval() -> None:
    time = Time()
    pacer = a_pacer(time, EVERY_4_S)
    began = []
    for _ in range(3):
        await turn(pacer, "key", Endpoint.CREATE)
        began.append(time.now)

    assert began == [1000, 1004, 1008]


async def test_other_keys_and_other_calls_do_not_wait() -> None:
    time = Time()
    pacer = a_pacer(time, EVERY_4_S)

    await turn(pacer, "key", Endpoint.CREATE)
    await turn(pacer, "other key", Endpoint.CREATE)
    await turn(pacer, "key", Endpoint.DESTROY)

    assert time.slept == []


async def test_who_comes_together_is_served_one_after_another() -> None:
    time = Time()
    pacer = a_pacer(time, EVERY_4_S)
    began: list[tuple[int, float]] = []

    async def call(number: int) -> None:
        await turn(pacer, "key", Endpoint.CREATE)
        began.append((number, time.now))

    await asyncio.gather(*(call(number) for number in range(4)))

    assert began == [(0, 1000), (1, 1004), (2, 1008), (3, 1012)]


async def test_several_calls_within_a_window_need_not_be_spread_over_it() -> None:
    time = Time()
    pacer = a_pacer(time, {Endpoint.SEARCH: Limit(10, 20.0)})
    for _ in range(10):
        await turn(pacer, "key", Endpoint.SEARCH)
    assert time.slept == []

    time.now += 5
    await turn(pacer, "key", Endpoint.SEARCH)
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
    await turn(pacer, "key", Endpoint.LIST)
    assert time.now == 1020

    pacer.refused("key", Endpoint.LIST, 31)
    with pytest.raises(TryLater) as caught:
        await turn(pacer, "key", Endpoint.LIST)
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
    await turn(pacer, "key", Endpoint.CREATE)
    await turn(pacer, "key", Endpoint.CREATE)

    assert time.now == 1000 + 4 + 25


async def test_nobody_joins_a_queue_that_is_longer_than_patience() -> None:
    time = Time()
    pacer = a_pacer(time, EVERY_4_S)

    outcomes = await asyncio.gather(*(turn(pacer, "key", Endpoint.CREATE) for _ in range(12)), return_exceptions=True)

    assert [outcome is None for outcome in outcomes] == [True] * 8 + [False] * 4
    assert all(isinstance(outcome, TryLater) for outcome in outcomes[8:])


async def test_a_caller_that_gives_up_leaves_the_queue() -> None:
    pacer = Pacer(EVERY_4_S)
    await turn(pacer, "key", Endpoint.CREATE)
    waiting = asyncio.create_task(turn(pacer, "key", Endpoint.CREATE))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert pacer._slots["key", Endpoint.CREATE].waiting == 0
    assert not pacer._slots["key", Endpoint.CREATE].queue.locked()


async def test_markets_with_one_key_share_their_pace() -> None:
    time = Time()
    markets = markets_on(always({"instances": None}), pacer=a_pacer(time, {Endpoint.SHOW: Limit(1, 2.1)}))
    for _ in range(10):
        await markets.market(api_key="k", base_url="http://m", worker_url_env="U").machine("1")

    assert time.now == pytest.approx(1000 + 9 * 2.1)


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


@pytest.mark.parametrize("keys", [["k"] * 10, [f"k{n}" for n in range(10)]], ids=["one key", "ten keys"])
async def test_while_lists_are_refused_for_ten_minutes_one_call_at_a_time_tries(keys: list[str]) -> None:
    time = Time()
    under_way, most, asked = dict.fromkeys(keys, 0), 0, 0

    async def refuse(request: httpx.Request) -> httpx.Response:
        nonlocal most, asked
        key = request.headers["Authorization"].removeprefix("Bearer ")
        asked += 1
        under_way[key] += 1
        if time.now > 1000:  # all come at once at first: nobody knows yet
            most = max(most, under_way[key])
        for _ in range(5):
            await asyncio.sleep(0)
        time.now += 0.2
        under_way[key] -= 1
        return httpx.Response(429, text="API requests too frequent: endpoint threshold=1.0")

    markets = markets_on(always({}), pacer=a_pacer(time))
    markets.http = httpx.AsyncClient(transport=httpx.MockTransport(refuse))
    clients = [markets.market(api_key=key, base_url="http://m", worker_url_env="U") for key in keys]
    while time.now < 1000 + 600:
        answers = await asyncio.gather(*(client.machines() for client in clients), return_exceptions=True)
        assert all(isinstance(answer, FleetUnreadable) for answer in answers)
        time.now += 10

    assert most == 1
    assert asked <= 10 + 8 * len(set(keys))


async def test_once_a_call_is_taken_again_all_others_follow() -> None:
    time = Time()
    pacer = a_pacer(time)
    pacer.refused("key", Endpoint.LIST, 5)
    order: list[str] = []

    async def call(name: str) -> None:
        async with pacer.turn("key", Endpoint.LIST):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append(f"{name} ends")
            pacer.served("key", Endpoint.LIST)

    await asyncio.gather(*(call(name) for name in ("one", "two", "three")))

    assert order[:2] == ["one begins", "one ends"]
    assert sorted(order[2:4]) == ["three begins", "two begins"]


async def test_a_call_that_tries_and_never_gets_an_answer_lets_the_next_one_try() -> None:
    pacer = a_pacer()
    pacer.refused("key", Endpoint.LIST, 0)

    async def breaks() -> None:
        async with pacer.turn("key", Endpoint.LIST):
            await asyncio.sleep(0)
            raise TryLater("no answer")

    answers = await asyncio.gather(*(breaks() for _ in range(3)), return_exceptions=True)

    assert [type(answer) for answer in answers] == [TryLater] * 3


@pytest.mark.parametrize(
    ("header", "body", "seconds"),
    [
        ("7", "", 7),
        ("7.5", "", 7.5),
        (None, {"retry_after": 9}, 9),
        (None, {"retry_after": "9"}, 9),
        ("Thu, 01 Jan 1970 00:17:10 GMT", "", 30),
        ("-5", "", 0),
        ("86400", "", 900),
        ("1e300", "", 900),
        ("Thu, 01 Jan 9999 00:00:00 GMT", "", 900),
        ("nan", "", 15),
        ("soon", {"retry_after": None}, 15),
        (None, "API requests too frequent", 15),
    ],
)
async def test_a_market_is_left_alone_for_as_long_as_it_asks_but_never_for_hours(
    header: str | None, body: Any, seconds: float
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    refusal = httpx.Response(429, text=text, headers={"Retry-After": header} if header else None)

    with pytest.raises(FleetUnreadable) as caught:
        await (
            markets_on(always(refusal), time=Time())
            .market(api_key="k", base_url="http://m", worker_url_env="U")
            .machines()
        )

    assert caught.value.retry_after_seconds == seconds


@pytest.mark.parametrize("answer", ["search_quota_exceeded", {"success": False, "error": "search_quota_exceeded"}])
async def test_a_quota_that_is_used_up_is_said_in_a_sentence(answer: Any) -> None:
    time = Time(86_400 - 600)
    spent = httpx.Response(429, text=answer) if isinstance(answer, str) else httpx.Response(429, json=answer)
    client = markets_on(always(spent), pacer=a_pacer(time), time=time).market(
        api_key="k", base_url="http://m", worker_url_env="U"
    )
    for _ in range(2):
        with pytest.raises(TryLater, match="no search before 00:00 UTC"):
            await client.offers(OfferFilter(), 250)


def test_the_defaults_are_no_faster_than_the_market_allows() -> None:
    documented = {"create": 4.5, "destroy": 3, "show": 2, "list": 1, "search": 6}

    for name, seconds in documented.items():
        limit = DEFAULT_LIMITS[Endpoint(name)]
        assert limit.seconds / limit.calls >= seconds
