"""The real agent. To see what it is made of, read down."""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
import httpx2
from sqlalchemy.ext.asyncio import AsyncEngine

from fleetagent.adapters.metrics import MeteredCluster, Metrics
from fleetagent.adapters.model.client import model_http_client
from fleetagent.adapters.notify import ApprisePager
from fleetagent.adapters.postgres.agents import PostgresAgents
from fleetagent.adapters.postgres.audit import PostgresAudit
from fleetagent.adapters.postgres.conversation import PostgresConversation
from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.leases import PostgresLeases
from fleetagent.adapters.postgres.ledger import PostgresLedger
from fleetagent.adapters.postgres.notices import PostgresOutbox
from fleetagent.adapters.postgres.runs import PostgresRuns
from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.adapters.postgres.workers import PostgresWorkers
from fleetagent.adapters.reach import Reach
from fleetagent.adapters.tokens import VOCABULARY, TiktokenTokens
from fleetagent.adapters.vast.client import VastMarkets
from fleetagent.adapters.vast.pacing import DEFAULT_LIMITS, NO_LIMITS, Pacer
from fleetagent.adapters.vast.search import SearchMemory
from fleetagent.agent.approvals import Approvals
from fleetagent.agent.clock import Now
from fleetagent.agent.compact import Compact
from fleetagent.agent.compose import Compose
from fleetagent.agent.deletion import Deletion
from fleetagent.agent.delivery import Delivery
from fleetagent.agent.desk import Secret, Services
from fleetagent.agent.effects import Effects
from fleetagent.agent.keeping import Keeping
from fleetagent.agent.lease import Ownership
from fleetagent.agent.lifecycle import Lifecycle
from fleetagent.agent.loop import Loop
from fleetagent.agent.notices import Notices
from fleetagent.agent.observe import Observe
from fleetagent.agent.pruning import Pruning
from fleetagent.agent.report import Report
from fleetagent.agent.served import Served
from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.tools import TOOLS, Tool
from fleetagent.agent.triggers import Triggers
from fleetagent.agent.turn import Turn
from fleetagent.bootstrap.worlds import RealWorlds
from fleetagent.domain.settle import SettleLimits
from fleetagent.entrypoints.workers import WorkerEndpoint
from fleetagent.ports import Cluster
from fleetagent.settings import Settings

LONGEST_RUN = timedelta(minutes=30)
COUNTS_REMEMBERED = 4096
LISTEN_SECONDS = 10
RENEWALS = 3
"""How often a lease is renewed within its length."""


def utc_now() -> datetime:
    """The clock of this process."""
    return datetime.now(UTC)  # noqa: TID251  # the one place


def new_secret() -> Secret:
    """A worker's secret: 32 characters that nobody guesses."""
    token = secrets.token_urlsafe(24)
    return Secret(token, token_hash(token))


def real_http_client() -> httpx.AsyncClient:
    """For the market and demand sources. It keeps no cookies: one source's would fill the memory or go to another."""
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return httpx.AsyncClient(trust_env=False, follow_redirects=False, cookies=cookies)


@dataclass(frozen=True, slots=True)
class Outside:
    """How the process reaches the world, and the clocks that it goes by: the real ones, unless a bench has others."""

    http: httpx.AsyncClient = field(default_factory=real_http_client)
    model_http: httpx2.AsyncClient = field(default_factory=model_http_client)
    now: Now = utc_now
    steady: Callable[[], float] = time.monotonic
    """Seconds that only ever rise, for paces and short memories."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a process serves, and what it must close."""

    triggers: Triggers
    notices: Notices
    workers: WorkerEndpoint
    database: Database
    http: httpx.AsyncClient
    worlds: RealWorlds
    metrics: Metrics


def process_name() -> str:
    """Tells this process from every other one, replicas on the same host included."""
    return f"{socket.gethostname()}/{secrets.token_hex(4)}"


def build(
    settings: Settings,
    *,
    cluster: Cluster,
    engine: AsyncEngine,
    renewals: AsyncEngine,
    owner: str,
    tools: Sequence[Tool] = TOOLS,
    outside: Outside | None = None,
) -> Built:
    """Wire the real agent by hand; a test builds the same on parts of its own.

    `renewals` is for leases alone: they must not wait behind the work that they stand for.
    """
    outside = outside or Outside()
    now, http = outside.now, outside.http
    database = Database(engine)
    agents = PostgresAgents(database, cluster=settings.cluster, owner=owner, lease=settings.lease)
    runs = PostgresRuns(database)
    ledger = PostgresLedger(database)
    conversation = PostgresConversation(database)

    pace = DEFAULT_LIMITS if settings.market_pacing else NO_LIMITS
    pacer = Pacer(pace, clock=outside.steady, wall_clock=lambda: now().timestamp())
    metrics = Metrics()
    cluster = MeteredCluster(cluster, metrics)
    reach = Reach(settings.allowed_hosts)
    worlds = RealWorlds(
        cluster=cluster,
        markets=VastMarkets(http, pacer, SearchMemory(clock=outside.steady), heard=metrics.market_call),
        http=http,
        model_http=outside.model_http,
        reach=reach,
        worker_url=settings.worker_url,
        now=now,
        metrics=metrics,
    )

    renew_every = settings.lease / RENEWALS
    leases = PostgresLeases(Database(renewals, longest_seconds=renew_every.total_seconds()), settings.lease)
    ownership = Ownership(leases, renew_every)
    starting = asyncio.Semaphore(settings.database_pool)
    effects = Effects(agents, ledger, now)
    limits = SettleLimits(
        settling=timedelta(seconds=settings.settling_seconds),
        confirm_gone=timedelta(seconds=settings.confirm_gone_seconds),
    )
    lifecycle = Lifecycle(agents, runs, ledger, effects, cluster, now, limits)
    observe = Observe(worlds, lifecycle, ledger, runs, cluster, now)
    services = Services(
        worlds=worlds,
        runs=runs,
        ledger=ledger,
        cluster=cluster,
        effects=effects,
        observe=observe,
        now=now,
        new_secret=new_secret,
        worker_url=settings.worker_url,
        meter=metrics,
    )
    toolbox = Toolbox(tools)
    count = lru_cache(maxsize=COUNTS_REMEMBERED)(TiktokenTokens().estimate)
    turn = Turn(
        ownership=ownership,
        runs=runs,
        ledger=ledger,
        worlds=worlds,
        services=services,
        compose=Compose(conversation, count, toolbox.schemas, VOCABULARY),
        loop=Loop(toolbox, Compact(conversation, cluster, metrics), LONGEST_RUN),
        now=now,
        starting=starting,
    )
    listen_every = timedelta(seconds=min(LISTEN_SECONDS, settings.beat_seconds))
    outbox = PostgresOutbox(database, cluster=settings.cluster)
    deliver = Delivery(
        outbox, ApprisePager(reach), cluster, metrics, now=now, steady=outside.steady, web_url=settings.web_url
    )
    notices = Notices(outbox, deliver, now=now, every=listen_every)
    keeping = Keeping(
        cluster_name=settings.cluster,
        agents=agents,
        ownership=ownership,
        runs=runs,
        ledger=ledger,
        observe=observe,
        served=Served(agents, runs, cluster, Approvals(ledger, cluster, now)),
        turn=turn,
        report=Report(cluster, metrics),
        prune=Pruning(PostgresAudit(database), now),
        meter=metrics,
        standing=notices.standing,
        now=now,
        look_every=timedelta(seconds=settings.look_seconds),
        listen_every=listen_every,
        starting=starting,
        retry_after=timedelta(seconds=min(5.0, settings.look_seconds)),
    )
    deletion = Deletion(
        settings.cluster,
        agents=agents,
        runs=runs,
        ledger=ledger,
        worlds=worlds,
        cluster=cluster,
        report=keeping.report,
        lifecycle=lifecycle,
        effects=effects,
        now=now,
        ownership=ownership,
    )
    triggers = Triggers(keeping, deletion)
    workers = WorkerEndpoint(PostgresWorkers(database, outside.steady), triggers, now, outside.steady)
    return Built(triggers, notices, workers, database, http, worlds, metrics)
