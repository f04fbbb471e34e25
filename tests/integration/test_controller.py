"""While the model fails for long, arithmetic decides: on a real ledger, with a market that sells what is asked for."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from fleetagent.adapters.model.client import model_http_client
from fleetagent.domain.fleet import MarketStatus, Offer, Order, Rented
from fleetagent.domain.records import Outcome
from fleetagent.errors import Denied, TryLater
from fleetagent.ports.world import MayBegin, at_once
from support.fleets import an_offer, as_rented
from support.on_postgres import EmptyMarket, OnPostgres, now
from support.servers import Model, a_model
from support.stores import a_process

DOWN = TryLater("the model server is down")
WANTS_200 = {
    "fallback": "Controller",
    "target": {"proofsPerHour": 200},
    "limits": {"minInstanceAge": "0s"},
}


@dataclass
class Shop(EmptyMarket):
    """Sells each offer once, and lists what was bought."""

    stock: dict[str, Offer] = field(default_factory=lambda: {n: an_offer(n) for n in ("7001", "7002", "7003")})
    rented: dict[str, Rented] = field(default_factory=dict)

    async def machines(self) -> tuple[Rented, ...]:
        return tuple(self.rented.values())

    async def offers(self, *_: Any) -> tuple[Offer, ...]:
        return tuple(self.stock.values())

    async def offer(self, offer_id: str, *_: Any) -> Offer | None:
        return self.stock.get(offer_id)

    async def launch(self, order: Order, may_begin: MayBegin = at_once) -> str:
        await may_begin()
        if (sold := self.stock.pop(order.offer_id, None)) is None:
            raise Denied("OfferGone", "somebody was faster")
        provider_id = f"9{order.offer_id}"
        self.rented[provider_id] = as_rented(order, sold, provider_id, status=MarketStatus.LOADING)
        return provider_id

    async def destroy(self, provider_id: str, may_begin: MayBegin = at_once) -> None:
        await may_begin()
        self.rented.pop(provider_id, None)


@dataclass
class Failing(OnPostgres):
    """An agent whose model server is down until it is said to be up."""

    down: bool = True

    def model(self) -> Any:
        return DOWN if self.down else super().model()

    async def has_failed_for(self, since: timedelta) -> None:
        """The model has failed in every run of that time."""
        await self.record()
        when = (now() - since).isoformat()
        await self.process.rows(f"UPDATE agents SET model_failing_since = '{when}' RETURNING id")  # noqa: S608

    async def actions(self) -> list[tuple[str, str, str]]:
        rows = await self.process.rows("SELECT kind, state, by FROM actions ORDER BY id")
        return [(r["kind"], r["state"], r["by"]) for r in rows]


@pytest.fixture(scope="module")
def server() -> Any:
    with a_model() as running:
        yield running


@pytest.fixture
async def on(database_url: str, server: Model) -> AsyncIterator[Failing]:
    http = model_http_client()
    async with a_process(database_url) as process:
        yield Failing(process, server, http, spec=WANTS_200, market=Shop(), worker_url="http://workers.test")
    await http.aclose()


LAUNCHED = ("launch", "done", "controller")


@pytest.mark.parametrize(
    ("minutes", "expected"), [(14, []), (15, [LAUNCHED, LAUNCHED])], ids=["not long enough", "long enough"]
)
async def test_the_controller_acts_only_after_the_model_has_failed_for_a_while(
    on: Failing, minutes: int, expected: list[tuple[str, str, str]]
) -> None:
    await on.has_failed_for(timedelta(minutes=minutes))

    ended = await on.run()

    assert ended.outcome is Outcome.FAILED
    assert await on.actions() == expected
    row = await on.last()
    assert row["verdict"]["action"] is bool(expected)
    assert row["summary"].startswith("the controller decided: launch 97001, launch 97002.") is bool(expected)


async def test_one_bad_answer_is_no_reason_to_act_without_the_model(on: Failing) -> None:
    await on.run()

    assert await on.actions() == []
    on.down = False
    await on.run()
    await on.has_failed_for(timedelta(minutes=14))  # it fails again: the wait begins anew
    on.down = True
    await on.run()

    assert {by for _, _, by in await on.actions()} == {"model"}


async def test_a_model_that_answers_and_never_decides_has_failed_too(on: Failing, server: Model) -> None:
    on.down = False
    await on.has_failed_for(timedelta(minutes=16))
    server.put("script", [{"calls": [{"name": "get_fleet"}]}] * 20)

    ended = await on.run()
    server.put("script", [])

    assert ended.outcome is Outcome.NO_PROGRESS
    assert await on.actions() == [LAUNCHED, LAUNCHED]
    assert (await on.record()).model_failing_since is not None


async def test_without_the_fallback_nobody_decides(on: Failing) -> None:
    on.spec = {**WANTS_200, "fallback": "Hold"}
    await on.has_failed_for(timedelta(days=2))

    await on.run()

    assert await on.actions() == []


async def test_with_the_tokens_of_the_day_used_up_the_controller_decides_at_once(on: Failing) -> None:
    on.spec, on.down = {**WANTS_200, "budget": {"fleetUsdPerHour": "4.00", "modelTokensPerDay": 0}}, False

    ended = await on.run()

    assert ended.model_problem is not None
    assert ended.model_problem[0] == "TokensUsedUp"
    assert await on.actions() == [LAUNCHED, LAUNCHED]


async def test_what_the_model_did_before_it_failed_is_counted_and_not_done_again(on: Failing, server: Model) -> None:
    said = [
        {"calls": [{"name": "plan_capacity"}]},
        {"calls": [{"name": "launch_instance", "arguments": {"offer_id": "7001"}}]},
    ]
    on.down = False
    await on.has_failed_for(timedelta(hours=1))
    server.put("script", [*said, *[{"status": 401, "body": "no"}] * 3])

    await on.run()
    server.put("script", [])

    assert await on.actions() == [("launch", "done", "model"), LAUNCHED]


async def test_what_is_on_its_way_is_counted_and_nothing_is_ordered_twice(on: Failing) -> None:
    await on.has_failed_for(timedelta(hours=1))

    for _ in range(4):
        await on.run()

    assert await on.actions() == [LAUNCHED, LAUNCHED]
    assert (await on.last())["summary"].startswith("the controller decided: it held, on target. ")


async def test_when_nothing_is_wanted_any_more_the_controller_stops_what_is_there(on: Failing) -> None:
    await on.has_failed_for(timedelta(hours=1))
    await on.run()
    on.spec = {**WANTS_200, "target": {"proofsPerHour": 0}}

    await on.run()

    assert (await on.actions())[2:] == [("stop", "done", "controller")] * 2
    assert on.market.rented == {}


@pytest.mark.parametrize(("mode", "state"), [("DryRun", "refused"), ("Approve", "waiting")])
async def test_a_mode_that_holds_back_holds_the_controller_back(on: Failing, mode: str, state: str) -> None:
    on.spec = {**WANTS_200, "mode": mode}
    await on.has_failed_for(timedelta(hours=1))

    await on.run()

    assert await on.actions() == [("launch", state, "controller")] * 2
    assert on.market.rented == {}


async def test_while_the_market_cannot_be_read_the_controller_holds(on: Failing) -> None:
    class Blind(Shop):
        async def machines(self) -> tuple[Rented, ...]:
            raise TryLater("410 deprecated_endpoint")

    on.market = Blind()
    await on.has_failed_for(timedelta(hours=1))

    await on.run()

    assert await on.actions() == []
    assert "it held, fleet or demand is unknown" in (await on.last())["summary"]


async def test_an_offer_that_is_gone_does_not_keep_the_others_from_being_rented(on: Failing) -> None:
    class FirstIsGone(Shop):
        async def launch(self, order: Order, may_begin: MayBegin = at_once) -> str:
            if order.offer_id == "7001":
                self.stock.pop("7001")
            return await super().launch(order, may_begin)

    on.market = FirstIsGone()
    await on.has_failed_for(timedelta(hours=1))

    await on.run()
    await on.run()

    assert [state for _, state, _ in await on.actions()] == ["failed", "done", "done"]


async def test_the_model_is_told_in_its_next_run_what_was_done_in_its_place(on: Failing, server: Model) -> None:
    await on.has_failed_for(timedelta(hours=1))
    await on.run()
    on.down, before = False, len(server.requests())

    await on.run()

    first = server.requests()[before]
    said = [str(m["content"]) for m in first["body"]["messages"] if m["role"] == "assistant"]
    assert any("In your place the fallback controller decided: launch 97001, launch 97002." in text for text in said)
    assert (await on.record()).model_failing_since is None
