"""A FleetAgent's whole world in one process and in virtual time: the real engine, a market, a model, a real Postgres.

Everything is wired as the operator wires it. In the place of Kubernetes stands a cluster that says nothing; market,
model and workers are reached over HTTP without sockets; the database tells the virtual time, too.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import httpx2
import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.bootstrap.build import Built, Outside, build
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.settings import Settings
from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.crew import Crew
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.marketplace.server import application
from fleetagent.sim.model.app import application as model_application
from fleetagent.sim.model.config import ModelConfig
from fleetagent.sim.model.thinking import Model
from support.fakes import QuietCluster
from support.manifests import a_manifest, merged
from support.virtual_time import VirtualLoop, calendar

START = datetime(2040, 1, 2, tzinfo=UTC)
"""A Monday, midnight. Later than any real clock that runs this, so that nothing real looks like the future."""

NAMESPACE, NAME = "virtual", "porep"
MARKET_KEY = f"{NAMESPACE}/vast/api-key"
"""What `QuietCluster` says when asked for that Secret."""

CREDIT_USD = 100_000.0

URLS: Mapping[str, Any] = {
    "model": {"baseURL": "http://model.test/v1"},
    "fleet": {"vast": {"baseURL": "http://market.test"}},
}

CLOCK_OF_POSTGRES = """\
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('virtual.now', true), '')::timestamptz, pg_catalog.clock_timestamp())
$$;
CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT public.clock_timestamp()';
"""


def a_database(postgres: EmbeddedPostgres, name: str) -> str:
    """An empty database whose clock is set by whoever asks it."""
    url = postgres.create_database(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(CLOCK_OF_POSTGRES)
        connection.execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
    return url


def _tell_the_time(engine: AsyncEngine, now: Callable[[], datetime]) -> None:
    """Set the database's clock when a connection is taken; until it is given back, time stands still."""

    @sa.event.listens_for(engine.sync_engine.pool, "checkout")
    def tell(connection: Any, record: Any, _: object) -> None:
        moment = now().isoformat()
        if record.info.get("told") == moment:
            return
        usual, connection.autocommit = connection.autocommit, True
        cursor = connection.cursor()
        cursor.execute("SELECT set_config('virtual.now', %s, false)", (moment,))
        cursor.close()
        connection.autocommit = usual
        record.info["told"] = moment


@dataclass(frozen=True, slots=True)
class World:
    """What there is to look at."""

    market: Market
    model: Model
    built: Built
    engine: AsyncEngine
    body: Mapping[str, Any]
    now: Callable[[], datetime]

    async def rows(self, query: str) -> list[dict[str, Any]]:
        """Read the database."""
        async with self.engine.connect() as connection:
            return [dict(row) for row in (await connection.execute(sa.text(query))).mappings().all()]


@asynccontextmanager
async def a_world(
    loop: VirtualLoop, database_url: str, *, spec: Mapping[str, Any], market: Mapping[str, Any], look_seconds: float
) -> AsyncIterator[World]:
    """Ready, and nothing has happened; `world.built.triggers.look(world.body)` starts the agent."""
    now = calendar(loop, START)
    usual: dict[str, Any] = {"api_keys": (MARKET_KEY,), "credit_usd": CREDIT_USD, "rate_limits": True}
    a_market = Market(MarketplaceConfig(**{**usual, **market}), Clock(steady=loop.time, wall=lambda: now().timestamp()))
    a_model = Model(ModelConfig(model="scripted"))
    engine = open_engine(database_url, 5)
    _tell_the_time(engine, now)
    outside = Outside(
        http=httpx.AsyncClient(transport=httpx.ASGITransport(application(a_market))),
        model_http=httpx2.AsyncClient(transport=httpx2.ASGITransport(model_application(a_model))),
        now=now,
        steady=loop.time,
    )
    settings = Settings(
        database_url=database_url,
        allowed_hosts=("market.test", "model.test"),
        worker_url="http://workers.test",
        look_seconds=look_seconds,
    )
    cluster: Any = QuietCluster()
    built = build(settings, cluster=cluster, engine=engine, renewals=engine, owner="virtual", outside=outside)
    workers = httpx.AsyncClient(transport=httpx.ASGITransport(built.workers.app()))
    manifest = a_manifest(
        name=NAME, namespace=NAMESPACE, metadata={"uid": "0c8f2f5e-0000-4000-8000-00000000be9c", "generation": 1}
    )
    body = merged(manifest, {"spec": merged(manifest["spec"], merged(URLS, spec))})
    async with outside.http, outside.model_http, workers, Crew(a_market, workers):
        try:
            yield World(a_market, a_model, built, engine, body, now)
        finally:
            await built.triggers.close()
            await engine.dispose()
