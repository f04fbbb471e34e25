"""The real agent. To see what it is made of, read down."""

import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import httpx
from kubernetes.aio.client import ApiClient
from sqlalchemy.ext.asyncio import AsyncEngine

from fleetagent.adapters.cluster import KubernetesCluster
from fleetagent.adapters.metrics import Metrics
from fleetagent.adapters.model.client import model_http_client
from fleetagent.adapters.postgres.agents import PostgresAgents
from fleetagent.adapters.postgres.audit import PostgresAudit
from fleetagent.adapters.postgres.conversation import PostgresConversation
from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.ledger import PostgresLedger
from fleetagent.adapters.postgres.runs import PostgresRuns
from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.adapters.postgres.workers import PostgresWorkers
from fleetagent.adapters.reach import Reach
from fleetagent.adapters.tokens import VOCABULARY, TiktokenTokens
from fleetagent.adapters.vast.client import VastMarkets
from fleetagent.adapters.vast.pacing import DEFAULT_LIMITS, NO_LIMITS, Pacer
from fleetagent.adapters.vast.search import SearchMemory
from fleetagent.agent.compact import Compact
from fleetagent.agent.compose import Compose
from fleetagent.agent.deletion import Deletion
from fleetagent.agent.desk import Secret, Services
from fleetagent.agent.effects import Effects
from fleetagent.agent.keeper import Keeping
from fleetagent.agent.lifecycle import Lifecycle
from fleetagent.agent.loop import Loop
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
from fleetagent.settings import Settings

LONGEST_RUN = timedelta(minutes=30)
COUNTS_REMEMBERED = 4096


def utc_now() -> datetime:
    """The clock of this process."""
    return datetime.now(UTC)  # noqa: TID251  # the one place


def new_secret() -> Secret:
    """A worker's secret: 32 characters that nobody guesses."""
    token = secrets.token_urlsafe(24)
    return Secret(token, token_hash(token))


@dataclass(frozen=True, slots=True)
class Built:
    """What a process serves, and what it must close."""

    triggers: Triggers
    workers: WorkerEndpoint
    cluster: KubernetesCluster
    database: Database
    http: httpx.AsyncClient
    worlds: RealWorlds
    metrics: Metrics


def build(
    settings: Settings, *, api: ApiClient, engine: AsyncEngine, home: str, tools: Sequence[Tool] = TOOLS
) -> Built:
    """Wire the real agent by hand; a test builds the same on parts of its own."""
    owner = f"{socket.gethostname()}/{secrets.token_hex(4)}"
    database = Database(engine)
    agents = PostgresAgents(database, cluster=settings.cluster, owner=owner, lease=settings.lease)
    runs = PostgresRuns(database)
    ledger = PostgresLedger(database)
    conversation = PostgresConversation(database)

    cluster = KubernetesCluster(api, home=home, instance=owner)
    http = httpx.AsyncClient(trust_env=False, follow_redirects=False)
    pacer = Pacer(DEFAULT_LIMITS if settings.market_pacing else NO_LIMITS)
    metrics = Metrics()
    worlds = RealWorlds(
        cluster=cluster,
        markets=VastMarkets(http, pacer, SearchMemory()),
        http=http,
        model_http=model_http_client(),
        reach=Reach(settings.allowed_hosts),
        worker_url=settings.worker_url,
        now=utc_now,
        metrics=metrics,
    )

    effects = Effects(agents, ledger, utc_now)
    limits = SettleLimits(
        settling=timedelta(seconds=settings.settling_seconds),
        confirm_gone=timedelta(seconds=settings.confirm_gone_seconds),
    )
    lifecycle = Lifecycle(agents, runs, ledger, effects, utc_now, limits)
    observe = Observe(worlds, lifecycle, ledger, runs, cluster, utc_now)
    services = Services(
        worlds=worlds,
        runs=runs,
        ledger=ledger,
        cluster=cluster,
        effects=effects,
        observe=observe,
        now=utc_now,
        new_secret=new_secret,
        worker_url=settings.worker_url,
    )
    toolbox = Toolbox(tools)
    count = lru_cache(maxsize=COUNTS_REMEMBERED)(TiktokenTokens().estimate)
    turn = Turn(
        agents=agents,
        runs=runs,
        ledger=ledger,
        worlds=worlds,
        services=services,
        compose=Compose(conversation, count, toolbox.schemas, VOCABULARY),
        loop=Loop(toolbox, Compact(conversation, cluster, metrics), LONGEST_RUN),
        now=utc_now,
        renew_every=settings.lease / 3,
    )
    keeping = Keeping(
        cluster_name=settings.cluster,
        agents=agents,
        runs=runs,
        ledger=ledger,
        observe=observe,
        served=Served(agents, runs, cluster),
        turn=turn,
        report=Report(cluster),
        prune=Pruning(PostgresAudit(database), utc_now),
        now=utc_now,
        look_every=timedelta(seconds=settings.look_seconds),
        renew_every=settings.lease / 3,
        retry_after=timedelta(seconds=min(5.0, settings.look_seconds)),
    )
    deletion = Deletion(
        settings.cluster,
        agents=agents,
        ledger=ledger,
        worlds=worlds,
        cluster=cluster,
        lifecycle=lifecycle,
        effects=effects,
        now=utc_now,
        renew_every=settings.lease / 3,
    )
    triggers = Triggers(keeping, deletion)
    workers = WorkerEndpoint(PostgresWorkers(database), triggers, utc_now)
    return Built(triggers, workers, cluster, database, http, worlds, metrics)
