"""What the lifecycle makes of the market: alerts, events and ends, each once, on a real ledger and over HTTP."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any, cast

import httpx
import pytest

from fleetagent.adapters.vast import NO_LIMITS, Pacer, SearchMemory, VastMarkets
from fleetagent.domain.fleet import Fleet, FleetUnknown, MarketStatus, Phase
from support.ledger import an_intent
from support.looks import PREFIX, Looks, looks_at
from support.servers import MARKET_KEY, Market, a_market
from support.stores import a_process


@pytest.fixture
def market() -> Iterator[Market]:
    with a_market(time_scale=1.0, worker_url_env="NONE") as running:
        yield running


@pytest.fixture
async def agent(database_url: str, market: Market) -> AsyncIterator[Looks]:
    lease = timedelta(minutes=10)  # nobody renews it
    async with a_process(database_url, lease=lease) as process, looks_at(process, market) as looks:
        yield looks


def set_credit(market: Market, usd: float) -> None:
    account = market.get("state")["accounts"][0]["id"]
    market.put(f"accounts/{account}", {"credit_usd": usd})


async def test_low_credit_is_one_alert_with_figures_until_the_account_is_topped_up(
    agent: Looks, market: Market
) -> None:
    await agent.a_known_machine()
    for _ in range(3):
        agent.a_machine("by hand")  # they live on the same money
    set_credit(market, 10.0)
    for _ in range(3):
        look = await agent.look()

    assert look.runway is not None
    assert look.runway.is_low
    assert await agent.alerts() == [("CreditLow", "open")]
    (row,) = await agent.process.rows("SELECT message FROM alerts")
    assert row["message"].startswith("top up the market's account: 10.00 USD of credit left, which lasts")
    assert "for all machines of the account" in row["message"]

    set_credit(market, 1000.0)
    look = await agent.look()
    assert look.runway is not None
    assert not look.runway.is_low
    assert await agent.alerts() == [("CreditLow", "resolved")]


async def test_machines_that_the_market_stops_for_want_of_money_are_ended_and_their_hosts_are_not_blamed(
    agent: Looks, market: Market
) -> None:
    await agent.a_known_machine()
    assert len(await agent.fleet()) == 1
    set_credit(market, 0.0)
    market.post("clock", {"advance_seconds": 60})

    assert [i.phase for i in await agent.fleet()] == [Phase.STOPPING]
    assert await agent.fleet() == ()
    assert await agent.process.rows("SELECT * FROM hosts") == []
    assert len(agent.events("MachineGivenUp")) == 1


async def test_a_price_that_a_host_asks_for_is_told_once_and_never_accepted(agent: Looks, market: Market) -> None:
    provider_id = await agent.a_known_machine()
    await agent.look()
    before = await agent.told()
    market.post(f"machines/{provider_id}/price", {"factor": 1.5, "pending": True})
    for _ in range(3):
        await agent.look()

    (said,) = (await agent.told())[len(before) :]
    assert said.startswith(f"machine {provider_id} is to cost ")
    assert await agent.alerts() == [("PriceRise", "open")]
    assert agent.events("FleetChanged")[-1] == said
    assert market.get("state")["calls"].get("price_answer", 0) == 0

    (rise,) = await agent.client.price_rises() or ()
    assert rise.provider_id == provider_id


async def test_a_price_that_has_risen_is_told_once_in_numbers_and_counts_from_then_on(
    agent: Looks, market: Market
) -> None:
    provider_id = await agent.a_known_machine()
    (machine,) = await agent.fleet()
    market.post(f"machines/{provider_id}/price", {"factor": 1.5, "pending": False})
    for _ in range(3):
        (dearer,) = await agent.fleet()

    assert dearer.usd_per_hour > machine.usd_per_hour
    (raised,) = [said for said in await agent.told() if "price raised" in said]
    was, is_now = f"{machine.usd_per_hour:.4f}", f"{dearer.usd_per_hour:.4f}"
    assert raised == f"machine {provider_id} costs more: price raised from {was} to {is_now} USD/h"


async def test_a_host_that_flaps_for_twenty_minutes_makes_a_handful_of_events(agent: Looks, market: Market) -> None:
    provider_id = await agent.a_known_machine()
    await agent.look()
    await agent.process.rows("UPDATE instances SET phase = 'proving' RETURNING id")
    before = len(await agent.told())
    for look in range(120):
        status = ("offline", "running")[look % 2]
        market.post(f"machines/{provider_id}/fail", {"status": status})
        await agent.look(10)

    assert 2 <= len(await agent.told()) - before <= 4


async def test_a_launch_that_appears_after_it_was_given_up_is_adopted_and_reported(agent: Looks) -> None:
    label = f"{PREFIX}late"
    action = await agent.process.ledger.intend_launch(agent.run, an_intent(label=label), agent.now)
    await agent.process.ledger.unclear(agent.run.lease, action, "504", None)
    for _ in range(4):
        await agent.look(120)
    assert await agent.fleet() == ()

    agent.now += timedelta(minutes=10)
    provider_id = agent.a_machine(label)

    assert [i.instance_id for i in await agent.fleet()] == [provider_id]
    rows = await agent.process.rows("SELECT state FROM actions")
    assert [row["state"] for row in rows] == ["done"]
    assert len(agent.events("MachineAdopted")) == 1
    assert f"machine {provider_id} carries our label but was not in the ledger: adopted" in await agent.told()


@pytest.mark.parametrize(
    ("spec", "because"),
    [
        ({"limits": {"maxInstances": 1}}, "1 instances are the limit"),
        ({"budget": {"fleetUsdPerHour": "0.70"}}, "would pass the budget of 0.70"),
        ({"budget": {"fleetUsdPerDay": "8.00"}}, "would pass the day's budget of 8.00"),
    ],
)
async def test_a_late_machine_for_which_there_is_no_room_is_ended_and_reported(
    agent: Looks, spec: dict[str, dict[str, str]], because: str
) -> None:
    known = await agent.a_known_machine()
    await agent.look()
    agent.spec = spec
    agent.a_machine(f"{PREFIX}late")

    phases = {i.instance_id == known: i.phase for i in await agent.fleet()}
    assert phases == {True: Phase.LOADING, False: Phase.STOPPING}
    assert [i.instance_id for i in await agent.fleet()] == [known]
    (said,) = agent.events("MachineGivenUp")
    assert because in said


@pytest.mark.parametrize("spec", [{"mode": "DryRun"}, {"mode": "Suspended"}])
async def test_a_machine_that_turns_up_is_kept_in_every_mode(agent: Looks, spec: dict[str, str]) -> None:
    agent.spec = spec
    provider_id = agent.a_machine(f"{PREFIX}late")

    assert [i.instance_id for i in await agent.fleet()] == [provider_id]


async def test_machines_that_are_not_ours_are_never_touched(agent: Looks, market: Market) -> None:
    labels = [None, "", "by hand", PREFIX, f"{PREFIX}a b", f"{PREFIX.upper()}late", "fa/000000000000/other"]
    for label in labels:
        agent.a_machine(label)

    assert await agent.fleet() == ()
    assert len(market.live()) == len(labels)
    assert await agent.told() == []


async def test_an_answer_that_names_somebody_elses_machine_makes_it_neither_ours_nor_destroyed(
    agent: Looks, market: Market
) -> None:
    foreign = agent.a_machine("by hand")
    label = f"{PREFIX}mine"
    action = await agent.process.ledger.intend_launch(agent.run, an_intent(label=label), agent.now)
    await agent.process.ledger.launched(agent.run.lease, action, foreign)

    (machine,) = await agent.fleet()
    assert machine.is_unknown
    await agent.effects.stop(agent.run.lease, 1, agent.client, machine, intent_key="s", by="model", reason="not needed")
    for _ in range(4):
        await agent.look(120)

    assert await agent.fleet() == ()
    assert [m["id"] for m in market.live()] == [int(foreign)]


class DiedError(Exception):
    """The process is no more."""


class Deaf:
    """A market at whose first destroy the process dies."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("destroy"):
            raise DiedError
        return getattr(self.client, name)


async def test_a_machine_that_is_given_up_is_stopped_told_and_its_host_blamed_in_one_transaction(
    agent: Looks, market: Market
) -> None:
    provider_id = await agent.a_known_machine()
    await agent.look()
    told = len(await agent.told())
    market.post(f"machines/{provider_id}/fail", {"status": "exited"})

    client: Any = agent.client
    agent.client = cast("Any", Deaf(client))
    with pytest.raises(DiedError):
        await agent.look()
    agent.client = client

    rows = await agent.process.rows("SELECT phase, destroy_asked_at FROM instances")
    assert rows == [{"phase": "stopping", "destroy_asked_at": None}]
    assert [r["failures"] for r in await agent.process.rows("SELECT failures FROM hosts")] == [1]
    assert len(await agent.told()) == told + 1

    await agent.look()
    assert await agent.fleet() == ()
    assert len(await agent.told()) == told + 1
    assert [r["failures"] for r in await agent.process.rows("SELECT failures FROM hosts")] == [1]


async def test_many_machines_that_must_end_are_ended_in_one_call(agent: Looks, market: Market) -> None:
    for number in range(1, 6):
        await agent.a_known_machine(number)
    assert len(await agent.fleet()) == 5
    for machine in market.live():
        market.post(f"machines/{machine['id']}/fail", {"status": "exited"})
    await agent.look()

    calls = market.get("state")["calls"]
    assert (calls["destroy_many"], calls["destroy"]) == (1, 0)
    assert await agent.fleet() == ()


async def test_what_one_call_for_all_has_not_ended_is_asked_for_one_by_one(agent: Looks, market: Market) -> None:
    for number in range(1, 4):
        await agent.a_known_machine(number)
    await agent.look()
    market.put("faults", {"destroy_many": {"kind": "ignored"}})
    for machine in market.live():
        market.post(f"machines/{machine['id']}/fail", {"status": "exited"})
    await agent.look()
    assert len(market.live()) == 3
    await agent.look()

    assert market.live() == []
    assert await agent.fleet() == ()


async def test_the_first_sight_of_a_machine_tells_that_it_is_online(agent: Looks) -> None:
    provider_id = await agent.a_known_machine()
    for _ in range(3):
        (machine,) = await agent.fleet()

    assert machine.market_status is MarketStatus.RUNNING
    assert await agent.told() == [f"machine {provider_id} is online"]


@pytest.mark.parametrize("before", [None, "999"], ids=["the first run of an agent", "its account was changed before"])
async def test_a_key_that_is_changed_in_the_middle_of_a_run_says_nothing_of_what_the_run_has_rented(
    database_url: str, before: str | None
) -> None:
    """The other account's list lacks it: it would be taken for lost, and bill for ever."""
    async with httpx.AsyncClient() as http, a_process(database_url) as process:
        with a_market(time_scale=1.0, api_keys=(MARKET_KEY, "another-key")) as market:
            other = VastMarkets(http, Pacer(NO_LIMITS), SearchMemory()).market(
                api_key="another-key", base_url=market.base_url, worker_url_env="NONE"
            )
            async with looks_at(process, market) as agent:
                if before is not None:
                    await process.agents.remember_account(agent.run.lease, before, instead_of=None)
                subject, lease = await agent.subject(), agent.run.lease

                first = await agent.lifecycle.look(subject, lease, agent.client)
                await agent.a_known_machine()
                found = [(await agent.lifecycle.look(subject, lease, m)).fleet for m in (other, agent.client)]

    assert isinstance(first.fleet, Fleet)
    assert [f.reason for f in found if isinstance(f, FleetUnknown)] == ["AccountChanged"]
    assert [len(f.instances) for f in found if isinstance(f, Fleet)] == [1]
