"""The programs in the machines and the market's books go on by themselves, whoever calls or not: in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.crew import Crew
from fleetagent.sim.marketplace.market import Market
from support import virtual_time
from support.simulated import HOUR_S, WALL, a_machine, the_account
from support.virtual_time import VirtualLoop

URL = {"env": {"FLEETAGENT_URL": "http://operator.invalid/workers/secret"}}


@dataclass
class Heard:
    """What the programs have said, and at which second."""

    market: Market
    broken_for: int = 0
    calls: list[tuple[float, str]] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls.append((self.market.clock.market(), request.url.path.rsplit("/", 1)[-1]))
        if len(self.calls) <= self.broken_for:
            return httpx.Response(503)
        return httpx.Response(200, json={"uuid": "u", "passed": True})

    @property
    def words(self) -> list[str]:
        return [call for _, call in self.calls]


def lived(story: Callable[[Market], Awaitable[None]], *, broken_for: int = 0, **changes: Any) -> Heard:
    """What was heard while a reliable market went through this."""

    async def main(loop: VirtualLoop) -> Heard:
        clock = Clock(steady=loop.time, wall=lambda: WALL + loop.time())
        market = Market(MarketplaceConfig(**{"reliable": True, "moving": False, **changes}), clock)
        heard = Heard(market, broken_for)
        async with httpx.AsyncClient(transport=httpx.MockTransport(heard)) as http, Crew(market, http):
            await story(market)
        return heard

    return virtual_time.run(main)


async def one_day(market: Market) -> None:
    a_machine(market, **URL)
    await asyncio.sleep(24 * HOUR_S)


def test_a_machine_lives_through_its_plan() -> None:
    heard = lived(one_day)

    (machine,) = heard.market.machines.values()
    fate = machine.fate
    running_at = fate.provisioning_s + 2 + fate.loading_s
    fetched_at, proving_at = running_at + fate.parameters_s, running_at + fate.parameters_s + fate.benchmark_s
    assert heard.words == ["register", "param-done", "bench-done", "running"]
    assert [at for at, _ in heard.calls] == pytest.approx([running_at, fetched_at, proving_at, proving_at])
    assert machine.worker.state == "proving"


def test_the_bill_of_a_week_is_a_weeks() -> None:
    async def a_week(market: Market) -> None:
        for number in range(10):
            a_machine(market, label=f"fa/x/{number}", **URL)
        await asyncio.sleep(7 * 24 * HOUR_S)

    heard = lived(a_week, credit_usd=10_000)

    per_hour = sum(machine.all_in_usd_per_hour for machine in heard.market.live())
    spent = 10_000 - heard.market.credit_usd(the_account(heard.market))
    assert heard.words.count("running") == 10
    assert spent == pytest.approx(7 * 24 * per_hour, rel=0.01)


def test_money_runs_out_at_its_hour_although_nobody_calls() -> None:
    heard = lived(one_day, credit_usd=0.1)

    (machine,) = heard.market.machines.values()
    assert heard.words == ["register"]
    assert machine.intended == "stopped"
    assert machine.usd_in_market_time(24 * HOUR_S) < 0.1 + machine.disk_usd_per_hour * 24


def test_a_report_that_is_not_heard_is_made_again() -> None:
    heard = lived(one_day, broken_for=3)

    assert heard.words[:5] == ["register"] * 4 + ["param-done"]


def test_a_machine_that_is_destroyed_meanwhile_falls_silent() -> None:
    async def destroyed(market: Market) -> None:
        machine = a_machine(market, **URL)
        await asyncio.sleep(machine.fate.loading_s + 10)
        market.destroy(the_account(market), machine.id)
        await asyncio.sleep(7 * 24 * HOUR_S)

    assert lived(destroyed).words == ["register"]
