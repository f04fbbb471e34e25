"""One listing for all who ask within seconds; never one from before a launch or a destroy of ours."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from fleetagent.adapters.vast import Endpoint, Limit
from fleetagent.adapters.vast.recent import Recent
from fleetagent.errors import FleetUnreadable, TryLater
from support.vast import Recorded, Time, a_machine_row, a_pacer, a_page, always, an_order, markets_on

EVERY_1_1_S = {Endpoint.LIST: Limit(1, 1.1)}


class Reads:
    """Counts what is read; each answer is its number."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> int:
        self.count += 1
        number = self.count
        await self.may_end.wait()
        return number


async def test_an_answer_serves_for_seconds_and_no_longer() -> None:
    time, read = Time(), Reads()
    recent: Recent[int] = Recent(3.0, clock=time)

    answers = [await recent.recall("key", read)]
    for passed in (2.9, 0.1):
        time.now += passed
        answers.append(await recent.recall("key", read))

    assert answers == [1, 1, 2]


async def test_those_who_ask_while_it_is_read_wait_for_it() -> None:
    read = Reads()
    read.may_end.clear()
    recent: Recent[int] = Recent(3.0, clock=Time())
    asking = [asyncio.create_task(recent.recall("key", read)) for _ in range(10)]
    await asyncio.sleep(0)
    read.may_end.set()

    assert await asyncio.gather(*asking) == [1] * 10


async def test_where_nothing_is_shared_everybody_reads_what_began_after_he_asked() -> None:
    time, read = Time(), Reads()
    recent: Recent[int] = Recent(0.0, clock=time)

    assert [await recent.recall("key", read) for _ in range(3)] == [1, 2, 3]


async def test_what_was_read_before_a_write_or_during_it_is_told_to_nobody_afterwards() -> None:
    read = Reads()
    recent: Recent[int] = Recent(60.0, clock=Time())
    await recent.recall("key", read)
    recent.written("key")
    assert await recent.recall("key", read) == 2

    recent.written("key")  # a write begins
    read.may_end.clear()
    during = asyncio.create_task(recent.recall("key", read))
    await asyncio.sleep(0)
    recent.written("key")  # and ends while the list is read
    read.may_end.set()

    assert await during == 3
    assert await recent.recall("key", read) == 4
    assert await recent.recall("another key", read) == 5


async def test_a_failure_is_not_kept() -> None:
    recent: Recent[int] = Recent(60.0, clock=Time())

    async def fail() -> int:
        raise TryLater("500")

    with pytest.raises(TryLater):
        await recent.recall("key", fail)
    assert await recent.recall("key", Reads()) == 1


async def test_what_nobody_knows_is_remembered_too() -> None:
    recent: Recent[None] = Recent(60.0, clock=Time())
    asked = []

    async def unknown() -> None:
        asked.append(1)

    await recent.recall("key", unknown)
    await recent.recall("key", unknown)

    assert asked == [1]


def by_path(**answers: Callable[[], httpx.Response]) -> Recorded:
    """A market that answers by method: GET lists, PUT rents, DELETE destroys."""
    return Recorded(lambda request: answers[request.method]())


async def test_ten_agents_with_one_key_list_once() -> None:
    market = always(a_page(a_machine_row(1)))
    markets = markets_on(market, pacer=a_pacer(Time(), EVERY_1_1_S))
    clients = [markets.market(api_key="k", base_url="http://m", worker_url_env="U") for _ in range(10)]

    lists = await asyncio.gather(*(client.machines() for client in clients))

    assert [[m.provider_id for m in listed] for listed in lists] == [["1"]] * 10
    assert len(market.requests) == 1


@pytest.mark.parametrize("write", ["launch", "destroy", "destroy_together"])
async def test_a_look_after_a_write_of_ours_is_a_new_one(write: str) -> None:
    market = by_path(
        GET=lambda: httpx.Response(200, json=a_page()),
        PUT=lambda: httpx.Response(200, json={"success": True, "new_contract": 1}),
        DELETE=lambda: httpx.Response(200, json={"success": True}),
    )
    markets = markets_on(market, pacer=a_pacer(Time(), EVERY_1_1_S))
    one, other = (markets.market(api_key="k", base_url="http://m", worker_url_env="U") for _ in range(2))
    what: Any = {"launch": an_order(), "destroy": "1", "destroy_together": ["1", "2"]}[write]
    await other.machines()
    await getattr(one, write)(what)
    await other.machines()
    await one.machines()

    assert [request.method for request in market.requests].count("GET") == 2


async def test_another_key_sees_its_own_list() -> None:
    market = always(a_page(a_machine_row(1)))
    markets = markets_on(market, pacer=a_pacer(Time(), EVERY_1_1_S))
    for key in ("k1", "k2"):
        await markets.market(api_key=key, base_url="http://m", worker_url_env="U").machines()

    assert len(market.requests) == 2


async def test_a_list_that_cannot_be_read_is_asked_for_again_by_the_next() -> None:
    market = always(httpx.Response(410), a_page())
    client = markets_on(market, pacer=a_pacer(Time(), EVERY_1_1_S)).market(
        api_key="k", base_url="http://m", worker_url_env="U"
    )
    with pytest.raises(FleetUnreadable):
        await client.machines()

    assert await client.machines() == ()


async def test_a_list_that_lacks_what_the_market_says_is_there_is_told_to_nobody_later() -> None:
    """A gap of one call would else last as long as the list is shared."""
    pages = iter([a_page(), a_page(a_machine_row(1))])
    market = Recorded(
        lambda request: httpx.Response(
            200, json={"instances": a_machine_row(1)} if request.url.path.endswith("/1/") else next(pages)
        )
    )
    markets = markets_on(market, pacer=a_pacer(Time(), EVERY_1_1_S))
    client = markets.market(api_key="k", base_url="http://m", worker_url_env="U")

    assert await client.machines() == ()
    assert await client.machine("1") is not None
    assert [m.provider_id for m in await client.machines()] == ["1"]
