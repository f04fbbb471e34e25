"""The operator process: settings, database, API server, listeners, kopf; and a common end."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import kopf
import sqlalchemy as sa

from fleetagent.adapters.cluster import KubernetesCluster
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.migrate import migrate
from fleetagent.bootstrap.build import Built, build, process_name
from fleetagent.bootstrap.kubeapi import open_kubernetes
from fleetagent.entrypoints import handlers
from fleetagent.entrypoints.guarded import Crowd
from fleetagent.entrypoints.health import health_app
from fleetagent.entrypoints.listen import listening
from fleetagent.entrypoints.metrics import metrics_app
from fleetagent.errors import CannotStart
from fleetagent.settings import Settings, host_and_port

log = logging.getLogger(__name__)


async def serve(settings: Settings) -> None:
    """Run the operator until SIGTERM or SIGINT. `CannotStart` when the process would have no use."""
    told_to_end = asyncio.Event()
    _on_signal(told_to_end)
    ready = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        built = await _unless(told_to_end, _open(stack, settings, ready))
        if built is not None:
            await _watch(settings, built, ready, told_to_end)


def _on_signal(told_to_end: asyncio.Event) -> None:
    """Handlers of our own from the start: a signal's default does not end a container's first process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told_to_end.set)


async def _unless(told_to_end: asyncio.Event, start: Awaitable[Built]) -> Built | None:
    """What has started, or None when we were told to end first: a database that does not answer must not keep us."""
    starting, told = asyncio.ensure_future(start), asyncio.ensure_future(told_to_end.wait())
    try:
        await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
        return starting.result() if starting.done() else None
    finally:
        for task in (starting, told):
            task.cancel()
        await asyncio.wait({starting, told})


async def _open(stack: contextlib.AsyncExitStack, settings: Settings, ready: asyncio.Event) -> Built:
    """Everything that must be there before the first resource is looked at; the stack closes it in reverse."""
    engine = open_engine(settings.database_url.get_secret_value(), settings.database_pool)
    stack.push_async_callback(engine.dispose)
    await migrate(engine)
    api, home = await open_kubernetes(stack, settings.namespaces)
    owner = process_name()
    cluster = KubernetesCluster(api, home=home, instance=owner)
    built = build(settings, cluster=cluster, engine=engine, owner=owner)
    stack.push_async_callback(built.http.aclose)
    stack.push_async_callback(built.worlds.model_http.aclose)
    await stack.enter_async_context(_events(cluster))
    await _listeners(stack, settings, built, ready)
    stack.push_async_callback(built.triggers.close)
    return built


@contextlib.asynccontextmanager
async def _events(cluster: KubernetesCluster) -> AsyncIterator[None]:
    task = asyncio.create_task(cluster.write_events(), name="events")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _listeners(stack: contextlib.AsyncExitStack, settings: Settings, built: Built, ready: asyncio.Event) -> None:
    async def database_answers() -> None:
        async with built.database.transaction() as connection:
            await connection.execute(sa.text("SELECT 1"))

    health = health_app(ready.is_set, database_answers)
    said = []
    for app, listen, what, crowd in (
        (built.workers.app(), settings.worker_listen, "FLEETAGENT_WORKER_LISTEN", Crowd()),
        (health, settings.health_listen, "FLEETAGENT_HEALTH_LISTEN", None),
        (metrics_app(built.metrics.text), settings.web_listen, "FLEETAGENT_WEB_LISTEN", None),
    ):
        host, port = host_and_port(listen)
        port = await stack.enter_async_context(listening(app, host, port, what=what, crowd=crowd))
        said.append(f"{what} {host}:{port}")
    log.info("listening: %s", ", ".join(said))


async def _watch(settings: Settings, built: Built, ready: asyncio.Event, told_to_end: asyncio.Event) -> None:
    registry = kopf.OperatorRegistry()
    handlers.register(registry, built.triggers, beat_seconds=settings.beat_seconds)

    @kopf.on.login(registry=registry)
    def login(**given: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)

    given = kopf.OperatorSettings()
    handlers.set_up(given, namespaced=bool(settings.namespaces))
    stop = asyncio.Event()
    watched = asyncio.create_task(_hand_over_on_signal(ready, told_to_end, stop, built))
    await kopf.operator(
        registry=registry,
        settings=given,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        ready_flag=ready,
        stop_flag=stop,
        memo=object(),
    )
    watched.cancel()
    if ready.is_set() and not told_to_end.is_set():
        raise CannotStart("the watches have ended by themselves; what kopf said about it stands above")


async def _hand_over_on_signal(
    ready: asyncio.Event, told_to_end: asyncio.Event, stop: asyncio.Event, built: Built
) -> None:
    """On the first signal let go of every agent at once: kopf takes seconds to end, and another replica could go on."""
    await ready.wait()
    _on_signal(told_to_end)  # kopf has put its own handlers in the place of ours
    log.info("watching FleetAgents")
    await told_to_end.wait()
    log.info("asked to end: runs are handed back")
    await built.triggers.close()
    stop.set()
