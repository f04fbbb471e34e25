"""The market without sockets, on a clock that the test moves."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from fleetagent.sim.marketplace import InProcessMarketplace, MarketplaceConfig, VirtualClock, in_process
from support.renter import CHEAPEST, KEY, Renter

WORKER_URL = "http://operator.invalid/workers/secret"


@dataclass(slots=True)
class World:
    """A market, somebody who rents there, and what the programs in the machines have said at which second."""

    marketplace: InProcessMarketplace
    clock: VirtualClock
    renter: Renter
    heard: list[tuple[float, str]]

    @property
    def calls(self) -> list[str]:
        return [call for _, call in self.heard]


@asynccontextmanager
async def a_world(*, broken_for: int = 0, **changes: Any) -> AsyncIterator[World]:
    clock, heard, tries = VirtualClock(), list[tuple[float, str]](), iter(range(1_000))

    def operator(request: httpx.Request) -> httpx.Response:
        heard.append((clock.market(), request.url.path.rsplit("/", 1)[-1]))
        if next(tries) < broken_for:
            return httpx.Response(503)
        return httpx.Response(200, json={"uuid": "u", "passed": True})

    settings: dict[str, Any] = {"reliable": True, "moving": False, "api_keys": (KEY,)} | changes
    config = MarketplaceConfig(**settings)
    async with (
        in_process(config, clock, workers=httpx.MockTransport(operator)) as marketplace,
        httpx.AsyncClient(
            transport=marketplace.transport,
            base_url="http://market.invalid",
            headers={"Authorization": f"Bearer {KEY}"},
            timeout=30,
        ) as http,
    ):
        yield World(marketplace, clock, Renter(http), heard)


async def test_a_machine_lives_through_its_plan_while_the_clock_is_moved() -> None:
    async with a_world() as world:
        contract = await world.renter.rent(env={"FLEETAGENT_URL": WORKER_URL})
        await world.clock.run(6 * 3600)
        row = await world.renter.one(contract)
        fate = world.marketplace.market.machines[contract].fate

    running_at = fate.provisioning_s + 2 + fate.loading_s
    proving_at = running_at + fate.parameters_s + fate.benchmark_s
    assert world.calls == ["register", "param-done", "bench-done", "running"]
    assert [at for at, _ in world.heard] == pytest.approx(
        [running_at, running_at + fate.parameters_s, proving_at, proving_at]
    )
    assert row is not None
    assert row["actual_status"] == "running"


async def test_a_stretch_of_time_may_be_cut_anywhere_and_shows_the_same() -> None:
    seen = []
    for cuts in (1, 77):
        async with a_world(reliable=False, moving=True) as world:
            for n in range(4):
                await world.renter.create(env={"FLEETAGENT_URL": WORKER_URL}, label=f"fa/x/{n}")
            for _ in range(cuts):
                await world.clock.run(77 * 600 / cuts)
            seen.append([(round(at, 6), call) for at, call in world.heard])

    assert seen[0] == seen[1]
    assert len(seen[0]) > 8


async def test_a_week_passes_when_told_to_and_its_bill_is_a_weeks() -> None:
    async with a_world(credit_usd=10_000) as world:
        for n in range(10):
            await world.renter.rent(env={"FLEETAGENT_URL": WORKER_URL}, label=f"fa/x/{n}")
        for _ in range(7 * 24):
            await world.clock.run(3600)
        state = await world.renter.state()

    assert world.calls.count("running") == 10
    assert sum(m["usd"] for m in state["machines"]) == pytest.approx(7 * 24 * state["usd_per_hour"], rel=0.01)
    assert state["clock"]["wall"] == 1_800_000_000 + 7 * 86_400


async def test_money_runs_out_at_its_hour_although_nobody_calls() -> None:
    async with a_world(credit_usd=0.2) as world:
        contract = await world.renter.rent(env={"FLEETAGENT_URL": WORKER_URL})
        await world.clock.run(86_400)
        machine = world.marketplace.market.machines[contract]
        disk_usd = machine.disk_usd_per_hour * 24

    assert world.calls == ["register"]
    assert machine.intended == "stopped"
    assert machine.usd_in_market_time(86_400) < 0.2 + disk_usd


async def test_a_report_is_tried_again_in_virtual_time() -> None:
    async with a_world(broken_for=3) as world:
        await world.renter.rent(env={"FLEETAGENT_URL": WORKER_URL})
        await world.clock.run(6 * 3600)

    assert world.calls[:5] == ["register"] * 4 + ["param-done"]


async def test_a_machine_that_is_destroyed_meanwhile_falls_silent() -> None:
    async with a_world() as world:
        contract = await world.renter.rent(env={"FLEETAGENT_URL": WORKER_URL})
        fate = world.marketplace.market.machines[contract].fate
        await world.clock.run(fate.loading_s + 10)
        await world.renter.destroy(contract)
        await world.clock.run(7 * 86_400)

    assert world.calls == ["register"]


@pytest.mark.parametrize(
    ("fault", "raised", "rented"),
    [
        ({"kind": "timeout"}, httpx.ReadTimeout, 0),
        ({"kind": "slow", "seconds": 60}, httpx.ReadTimeout, 1),
        ({"kind": "created_then_reset"}, httpx.ReadError, 1),
    ],
)
async def test_a_broken_call_raises_at_once_what_a_socket_would(
    fault: dict[str, Any], raised: type[Exception], rented: int
) -> None:
    async with a_world() as world:
        await world.renter.faults({"create": fault})
        with pytest.raises(raised):
            await world.renter.create()

        assert len(await world.renter.ids()) == rented


async def test_the_wall_clock_of_the_market_is_the_virtual_one() -> None:
    async with a_world(rate_limits=True) as world:
        first = await world.renter.http.get("/api/v1/instances/")
        second = await world.renter.http.get("/api/v1/instances/")
        await world.clock.run(1.0)
        third = await world.renter.http.get("/api/v1/instances/")
        offers = (await world.renter.http.post("/api/v0/bundles/", content=json.dumps(CHEAPEST))).json()["offers"]

    assert [response.status_code for response in (first, second, third)] == [200, 429, 200]
    assert offers[0]["start_date"] == 1_800_000_001
