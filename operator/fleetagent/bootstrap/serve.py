"""The operator process: settings, database, API server, listeners, kopf; and a common end."""

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import AsyncIterator, Awaitable

import kopf
from kopf._core.engines.peering import Identity

from fleetagent.adapters.cluster import KubernetesCluster
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.migrate import migrate
from fleetagent.adapters.postgres.schema import Schema
from fleetagent.bootstrap.build import Built, build, process_name, utc_now
from fleetagent.bootstrap.credentials import one_line
from fleetagent.bootstrap.kubeapi import log_in, open_kubernetes
from fleetagent.bootstrap.peering import check_peering, priority
from fleetagent.entrypoints import handlers
from fleetagent.entrypoints.guarded import Crowd
from fleetagent.entrypoints.health import health_app
from fleetagent.entrypoints.listen import listening
from fleetagent.entrypoints.metrics import metrics_app
from fleetagent.entrypoints.signs import Signs
from fleetagent.entrypoints.turns import Turns, insights
from fleetagent.errors import CannotStart
from fleetagent.settings import Settings, host_and_port

log = logging.getLogger(__name__)

ENDS_WITHIN_S = 15
"""How long kopf may take after all runs were handed back."""


async def serve(settings: Settings) -> None:
    """Run the operator until SIGTERM or SIGINT. `CannotStart` when the process would have no use."""
    told_to_end = asyncio.Event()
    _on_signal(told_to_end)
    ready = asyncio.Event()
    name = process_name()
    registry = kopf.OperatorRegistry()
    signs = Signs(
        settings.namespaces,
        max(settings.silent_seconds, 3 * settings.beat_seconds),
        lifetime_seconds=settings.lease_seconds if settings.peering is not None else None,
    )
    async with contextlib.AsyncExitStack() as stack:
        built = await _unless(told_to_end, _open(stack, settings, name, registry, signs))
        if built is not None:
            await _watch(settings, built, name, registry, signs, ready, told_to_end)


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


async def _open(
    stack: contextlib.AsyncExitStack, settings: Settings, name: str, registry: kopf.OperatorRegistry, signs: Signs
) -> Built:
    """Everything that must be there before the first resource is looked at; the stack closes it in reverse."""
    engine = open_engine(settings.database_url.get_secret_value(), settings.database_pool)
    stack.push_async_callback(engine.dispose)
    await migrate(engine)
    kubernetes = await open_kubernetes(stack, settings.namespaces)
    log_in(registry, kubernetes, signs.notice)
    if settings.peering is not None:
        await check_peering(kubernetes.api, settings.peering, settings.namespaces)
    cluster = KubernetesCluster(kubernetes.api, home=kubernetes.home, instance=name)
    built = build(settings, cluster=cluster, engine=engine, owner=name)
    stack.push_async_callback(built.http.aclose)
    stack.push_async_callback(built.worlds.model_http.aclose)
    await stack.enter_async_context(_events(cluster, signs))
    await _listeners(stack, settings, built, signs)
    stack.push_async_callback(built.triggers.close)
    return built


@contextlib.asynccontextmanager
async def _events(cluster: KubernetesCluster, signs: Signs) -> AsyncIterator[None]:
    task = asyncio.create_task(cluster.write_events(), name="events")
    signs.rely_on(task)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _listeners(stack: contextlib.AsyncExitStack, settings: Settings, built: Built, signs: Signs) -> None:
    schema = Schema(settings.database_url.get_secret_value())
    stack.push_async_callback(schema.close)
    health = health_app(signs, schema.check)
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


async def _watch(
    settings: Settings,
    built: Built,
    name: str,
    registry: kopf.OperatorRegistry,
    signs: Signs,
    ready: asyncio.Event,
    told_to_end: asyncio.Event,
) -> None:
    gc.freeze()  # the modules stay for good: going through all of them takes 100 ms, each time amid somebody's run
    handlers.register(registry, built.triggers, signs, beat_seconds=settings.beat_seconds)
    given = kopf.OperatorSettings()
    peering, turns = None, None
    if settings.peering is not None:
        peering = handlers.Peering(settings.peering, priority(utc_now()), settings.lease_seconds)
        turns = Turns(built.triggers.rest)
        signs.stands_by = lambda: not turns.active
        built.metrics.watch_turns(lambda: turns.active)
        log.info("peering %s: this is %s with priority %s", peering.name, name, peering.priority)
    handlers.set_up(
        given, namespaced=bool(settings.namespaces), peering=peering, silent_seconds=settings.silent_seconds
    )
    stop = asyncio.Event()
    watched = asyncio.create_task(_hand_over_on_signal(ready, told_to_end, stop, built, given))
    operating = asyncio.ensure_future(
        kopf.operator(
            registry=registry,
            settings=given,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            ready_flag=ready,
            stop_flag=stop,
            memo=object(),
            memories=turns,
            insights=insights(),
            identity=Identity(name),
        )
    )
    try:
        await asyncio.wait({operating, watched}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait_for(operating, ENDS_WITHIN_S)
    except TimeoutError:
        # `helm uninstall` has taken the account away, and kopf waits for a login that never comes.
        log.warning("kopf has not ended within %d s: it is left behind", ENDS_WITHIN_S)
    except Exception as error:
        said = one_line(error.args[0] if error.args else error)
        raise CannotStart(f"the watches have ended by themselves: {said}; more stands above") from error
    finally:
        operating.cancel()
        watched.cancel()
    if ready.is_set() and not told_to_end.is_set():
        raise CannotStart("the watches have ended by themselves; what kopf said about it stands above")


async def _hand_over_on_signal(
    ready: asyncio.Event,
    told_to_end: asyncio.Event,
    stop: asyncio.Event,
    built: Built,
    given: kopf.OperatorSettings,
) -> None:
    """On the first signal let go of every agent at once: kopf takes seconds to end, and another replica could go on."""
    await ready.wait()
    _on_signal(told_to_end)  # kopf has put its own handlers in the place of ours
    log.info("watching FleetAgents")
    await told_to_end.wait()
    log.info("asked to end: runs are handed back")
    await built.triggers.close()
    # kopf takes itself off the peering now; `helm uninstall` has taken the right to do so by then: no use insisting.
    given.networking.error_backoffs = (0.5,)
    stop.set()
