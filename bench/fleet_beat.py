"""What a beat takes of our CPU with a large fleet: list, settle, write down, report; and nothing is due.

Market and Postgres are processes of their own, so this process's CPU is the operator's alone.
"""

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import httpx
import httpx2
import sqlalchemy as sa
from bench.page import met
from bench.world import say

from fleetagent.adapters.postgres.agents import PostgresAgents
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.adapters.postgres.tables import instances
from fleetagent.agent.subject import label_prefix
from fleetagent.agent.triggers import key_of
from fleetagent.bootstrap.build import Built, Outside, build, utc_now
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.settings import Settings
from fleetagent.sim import marketplace
from fleetagent.sim.marketplace.machines import Machine, Order
from fleetagent.sim.marketplace.timeline import Step, Timeline
from fleetagent.sim.model.app import application
from fleetagent.sim.model.config import ModelConfig
from fleetagent.sim.model.thinking import Model
from support.fakes import QuietCluster
from support.manifests import a_manifest, merged

MACHINES = 500
LOOKS = 8
LOOK_SECONDS = 3.0
GOAL_MS = 50.0
KEY = "bench/vast/api-key"
USD_PER_HOUR = 0.40

SPEC: dict[str, Any] = {
    "target": {"proofsPerHour": 50_000},
    "budget": {"fleetUsdPerHour": "1000"},
    "limits": {"maxInstances": 1000},
    "schedule": {"interval": "24h"},
    "model": {"baseURL": "http://model.test/v1"},
}

Rented = dict[str, Any]
"""A machine of the large market, as a row of `instances`."""


def rows() -> list[list[str]]:
    """The beat, and what of it no operator could do without: to fetch the pages and read them as JSON."""
    say(f"fleet: {LOOKS} looks at {MACHINES} machines")
    with EmbeddedPostgres.start() as postgres, a_large_market() as (url, rented):
        database_url = postgres.create_database("beat")
        migrate_to_head(database_url)
        floor_ms, ours_ms = asyncio.run(_measured(url, rented, database_url))
    return [
        [f"fetch {MACHINES} machines in pages of 25 and read the JSON", f"{floor_ms:.1f} ms", "1.0", "", ""],
        [
            f"a beat with {MACHINES} machines",
            f"{ours_ms:.1f} ms",
            f"{ours_ms / floor_ms:.1f}",
            f"≤ {GOAL_MS:g} ms",
            met(ours_ms <= GOAL_MS),
        ],
    ]


async def _measured(url: str, rented: Sequence[Rented], database_url: str) -> tuple[float, float]:
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {KEY}"}) as http:
        floor = [await _walk(http) for _ in range(LOOKS)]
    return 1000 * median(floor), await beat_ms(url, rented, database_url)


async def _walk(http: httpx.AsyncClient) -> float:
    """CPU seconds of the least that a look needs."""
    began, query = time.process_time(), {"limit": "25"}
    while True:
        page = json.loads((await http.get("/api/v1/instances/", params=query)).content)
        if not (token := page["next_token"]):
            return time.process_time() - began
        query["after_token"] = token


async def beat_ms(url: str, rented: Sequence[Rented], database_url: str) -> float:
    """CPU of this process per look, all else that the operator does in that time included."""
    settings = Settings(
        database_url=database_url,
        allowed_hosts=("127.0.0.1", "model.test"),
        worker_url="http://workers.test",
        look_seconds=LOOK_SECONDS,
        market_pacing=False,
    )
    engine, cluster = open_engine(database_url, 5), _quiet()
    model = httpx2.ASGITransport(application(Model(ModelConfig(model="scripted"))))  # for the first run alone
    outside = Outside(model_http=httpx2.AsyncClient(transport=model))
    built = build(settings, cluster=cluster, engine=engine, renewals=engine, owner="bench", outside=outside)
    try:
        await _write_down(built, rented)
        built.triggers.look(a_body(url))
        await _looks(built, 4)
        began, first = time.process_time(), await _samples(built)
        await asyncio.sleep(LOOKS * LOOK_SECONDS)
        taken, looks = time.process_time() - began, await _samples(built) - first
        proving = await _proving(built)
        if proving != MACHINES:
            raise RuntimeError(f"{proving} of {MACHINES} machines prove")
        return 1000 * taken / looks
    finally:
        await built.triggers.close()
        await built.http.aclose()
        await built.worlds.model_http.aclose()
        await engine.dispose()


def _quiet() -> Any:
    """A Kubernetes API that takes no time of ours."""
    return QuietCluster()


async def _write_down(built: Built, rented: Sequence[Rented]) -> None:
    """The ledger has them all, since long ago."""
    agents = PostgresAgents(built.database, cluster="default", owner="bench", lease=timedelta(seconds=15))
    body = a_body("http://unused.test")
    record = await agents.meet(key_of(body), body["metadata"]["uid"], floor=0, handled={})
    long_ago = utc_now() - timedelta(days=1)
    usual = {
        "agent_id": record.id,
        "phase": "proving",
        "phase_since": long_ago,
        "requested_at": long_ago,
        "billed_until": utc_now(),
        "expected_rate": 100.0,
        "measured_rate": 100.0,
        "market_status": "running",
    }
    rows = [{**usual, **machine, "number": n + 1} for n, machine in enumerate(rented)]
    async with built.database.transaction() as connection:
        await connection.execute(sa.insert(instances), rows)


def a_body(url: str) -> dict[str, Any]:
    """The resource whose machines `a_large_market` has."""
    manifest = a_manifest(metadata={"uid": "0c8f2f5e-0000-4000-8000-00000000be9d", "generation": 1})
    spec = merged(SPEC, {"fleet": {"vast": {"baseURL": url}}})
    return merged(manifest, {"metadata": {"namespace": "bench"}, "spec": merged(manifest["spec"], spec)})


async def _samples(built: Built) -> int:
    """One is written down with each look."""
    return await _scalar(built, "SELECT count(*) FROM samples")


async def _proving(built: Built) -> int:
    return await _scalar(built, "SELECT coalesce(max(proving), 0) FROM samples")


async def _scalar(built: Built, query: str) -> int:
    async with built.database.transaction() as connection:
        return int((await connection.exec_driver_sql(query)).scalar_one())


async def _looks(built: Built, more: int) -> None:
    until = await _samples(built) + more
    async with asyncio.timeout(120):
        while await _samples(built) < until:  # noqa: ASYNC110  # the database is what says so
            await asyncio.sleep(0.5)


@contextmanager
def a_large_market() -> Iterator[tuple[str, list[Rented]]]:
    """A market in a process of its own: its URL, and the machines that the bench's agent has there."""
    process_context = multiprocessing.get_context("spawn")
    ours, theirs = process_context.Pipe()
    process = process_context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
        ours.send("end")
        process.join(10)
    finally:
        process.kill()
        process.join()


def _serve(told: Connection) -> None:
    asyncio.run(_served(told))


async def _served(told: Connection) -> None:
    prefix = label_prefix("default", key_of(a_body("http://unused.test")))
    config = marketplace.MarketplaceConfig(
        api_keys=(KEY,), offers=MACHINES, credit_usd=1e9, reliable=True, moving=False
    )
    async with marketplace.running(config) as running:
        market = running.market
        rented = []
        for n, host in enumerate(market.supply.hosts[:MACHINES]):
            order = Order(image="example/curio-prover:latest", disk_gb=250, label=f"{prefix}{n:012x}")
            timeline = Timeline([Step(0.0, "running")])
            rented.append(market.sign(market.accounts[0], host, order, USD_PER_HOUR, timeline=timeline))
        told.send((running.url, [_as_row(machine) for machine in rented]))
        await asyncio.to_thread(told.recv)


def _as_row(machine: Machine) -> Rented:
    return {
        "label": machine.label,
        "provider_id": str(machine.id),
        "machine_id": str(machine.host.machine_id),
        "gpu_name": machine.host.gpu.name,
        "num_gpus": machine.host.num_gpus,
        "cpu_ram_gb": machine.host.ram_gib,
        "cpu_cores": machine.host.cores,
        "usd_per_hour": Decimal(str(machine.all_in_usd_per_hour)),
    }
