"""One buyer at a time for each key, no offer twice, and what an account without money is told."""

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest

from fleetagent.adapters.vast.buyers import Buyers
from fleetagent.errors import BadResource, Denied, LeaseLost, TryLater, Unclear
from support.vast import Recorded, Time, a_pacer, always, an_order, markets_on

NO_CREDIT = {"success": False, "error": "insufficient_credit", "msg": "Your account lacks credit"}
RENTED = {"success": True, "new_contract": 50_300_001}


def two_clients(market: Recorded, time: Time | None = None, keys: tuple[str, str] = ("k", "k")) -> list[Any]:
    time = time or Time()
    markets = markets_on(market, pacer=a_pacer(time), time=time)
    return [markets.market(api_key=key, base_url="http://m", worker_url_env="U") for key in keys]


async def test_only_one_agent_with_a_key_is_about_to_buy() -> None:
    one, two = two_clients(always(RENTED))
    happened: list[str] = []

    async def buy(client: Any, name: str) -> None:
        async with client.buying():
            happened.append(f"{name} begins")
            await asyncio.sleep(0)
            happened.append(f"{name} ends")

    await asyncio.gather(buy(one, "one"), buy(two, "two"))

    assert happened == ["one begins", "one ends", "two begins", "two ends"]


async def test_agents_with_other_keys_do_not_wait() -> None:
    one, two = two_clients(always(RENTED), keys=("k1", "k2"))

    async with one.buying(), two.buying():
        pass


async def test_who_is_called_off_while_he_waits_leaves_the_queue() -> None:
    one, two = two_clients(always(RENTED))

    async def buy() -> None:
        async with two.buying():
            pytest.fail("it was called off")

    async with one.buying():
        waiting = asyncio.create_task(buy())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with two.buying():
        pass


async def test_nobody_waits_for_his_turn_for_ever() -> None:
    buyers = Buyers(patience_seconds=0.01)

    async with buyers.turn("key"):
        with pytest.raises(TryLater, match="other agents with the same market key"):
            async with buyers.turn("key"):
                pytest.fail("two at a time")
    async with buyers.turn("key"):
        pass


async def test_an_error_in_the_block_is_not_taken_for_impatience() -> None:
    buyers = Buyers()

    with pytest.raises(TimeoutError):
        async with buyers.turn("key"):
            raise TimeoutError
    async with buyers.turn("key"):
        pass


@pytest.mark.parametrize("keys", [("k", "k"), ("k1", "k2")], ids=["one key", "two keys"])
async def test_an_offer_is_ordered_once_by_all_agents(keys: tuple[str, str]) -> None:
    market, time = always(RENTED), Time()
    one, two = two_clients(market, time, keys)
    await one.launch(an_order(label="fa/abc/1"))

    with pytest.raises(Denied) as caught:
        await two.launch(an_order(label="fa/def/1"))
    assert (caught.value.code, len(market.requests)) == ("OfferGone", 1)

    time.now += 601
    await two.launch(an_order(label="fa/def/2"))
    assert len(market.requests) == 2


async def test_an_offer_that_may_have_been_taken_is_not_ordered_again() -> None:
    one, two = two_clients(always(httpx.Response(504)))
    with pytest.raises(Unclear):
        await one.launch(an_order())

    with pytest.raises(Denied):
        await two.launch(an_order())


@pytest.mark.parametrize(
    "refusal",
    [
        httpx.Response(429, text="API requests too frequent"),
        httpx.Response(400, json=NO_CREDIT),
        httpx.Response(404, json={"success": False, "error": "auth_error"}),
    ],
)
async def test_an_offer_that_was_certainly_not_taken_may_be_ordered_by_another(refusal: httpx.Response) -> None:
    market, time = always(refusal, RENTED), Time()
    one, two = two_clients(market, time)
    with pytest.raises((TryLater, Denied, BadResource)):
        await one.launch(an_order())
    time.now += 60

    assert await two.launch(an_order()) == "50300001"


async def test_a_create_that_may_not_begin_gives_the_offer_back() -> None:
    one, two = two_clients(always(RENTED))

    async def lost() -> None:
        raise LeaseLost("another process owns this agent now")

    with pytest.raises(LeaseLost):
        await one.launch(an_order(), lost)

    assert await two.launch(an_order()) == "50300001"


def an_account(credit: object) -> dict[str, object]:
    return {"id": 412_001, "credit": credit}


class Bank:
    """An account, and what comes of a launch."""

    def __init__(self) -> None:
        self.credit: object = 3.0
        self.launch: dict[str, Any] = NO_CREDIT
        self.time = Time()
        self.clients = two_clients(Recorded(self._answer), self.time)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            return httpx.Response(400 if self.launch is NO_CREDIT else 200, json=self.launch)
        return httpx.Response(200, json=an_account(self.credit))

    async def refused(self, client: int = 0) -> str | None:
        refused: str | None = (await self.clients[client].account()).refused
        return refused

    async def buy(self) -> None:
        with pytest.raises(Denied):
            await self.clients[0].launch(an_order())


async def test_a_launch_that_is_refused_for_want_of_money_is_known_to_all_agents_until_money_comes() -> None:
    bank = Bank()
    assert await bank.refused() is None
    await bank.buy()

    assert "insufficient_credit" in (await bank.refused(1) or "")
    bank.credit = 2.9
    assert await bank.refused() is not None
    bank.credit = 50.0
    assert await bank.refused() is None
    assert (await bank.clients[1].account()).credit_usd == Decimal("50.0")


async def test_a_launch_that_is_taken_ends_the_refusal() -> None:
    bank = Bank()
    await bank.buy()
    bank.launch = RENTED
    await bank.clients[1].launch(an_order())

    assert await bank.refused() is None


async def test_a_refusal_that_nothing_ends_is_forgotten_after_an_hour() -> None:
    bank = Bank()
    bank.credit = None
    await bank.buy()
    assert await bank.refused() is not None

    bank.time.now += 3601
    assert await bank.refused() is None
