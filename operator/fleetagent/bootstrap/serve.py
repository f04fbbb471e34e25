"""The operator process: settings, database, API server, listeners, kopf; and a common end."""

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import AsyncIterator, Awaitable

import kopf
from kopf._core.engines.peering import Identity  # a type of kopf.operator that kopf 1.45 does not export
from starlette.applications import Starlette

from fleetagent.adapters.cluster import KubernetesCluster
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.migrate import migrate_when_it_answers
from fleetagent.adapters.postgres.schema import Schema
from fleetagent.bootstrap.build import Built, build, process_name, utc_now
from fleetagent.bootstrap.credentials import one_line
from fleetagent.bootstrap.kubeapi import Kubernetes, log_in, open_kubernetes, until_one_is_back
from fleetagent.bootstrap.peering import check_peering, priority
from fleetagent.bootstrap.web import open_web
from fleetagent.entrypoints import handlers
from fleetagent.entrypoints.guarded import Crowd
from fleetagent.entrypoints.health import health_app
from fleetagent.entrypoints.listen import listening
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
    name = process_name()
    registry = kopf.OperatorRegistry()
    signs = Signs(
        settings.namespaces,
        max(settings.silent_seconds, 3 * settings.beat_seconds),
        lifetime_seconds=settings.lease_seconds if settings.peering is not None else None,
    )
    async with contextlib.AsyncExitStack() as stack:
        built = await _unless(told_to_end, _open(stack, settings, name, registry, signs, told_to_end))
        if built is not None:
            await _watch(settings, built, name, registry, signs, told_to_end)


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
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    name: str,
    registry: kopf.OperatorRegistry,
    signs: Signs,
    told_to_end: asyncio.Event,
) -> Built:
    """Everything that must be there before the first resource is looked at; the stack closes it in reverse."""
    engine = open_engine(settings.database_url.get_secret_value(), settings.database_pool)
    stack.push_async_callback(engine.dispose)
    renewals = open_engine(settings.database_url.get_secret_value(), pool_size=1)
    stack.push_async_callback(renewals.dispose)
    schema = Schema(settings.database_url.get_secret_value())
    stack.push_async_callback(schema.close)
    health = await _listen(stack, "FLEETAGENT_HEALTH_LISTEN", settings.health_listen, health_app(signs, schema.check))
    await migrate_when_it_answers(engine)
    kubernetes = await open_kubernetes(stack, settings.namespaces)
    log_in(registry, kubernetes, signs.notice)
    if kubernetes.refused:
        signs.leave_out(kubernetes.refused)
        await stack.enter_async_context(_ending_when_one_is_back(kubernetes, told_to_end))
    if settings.peering is not None:
        await check_peering(kubernetes.api, settings.peering, tuple(signs.namespaces))
    cluster = KubernetesCluster(kubernetes.api, home=kubernetes.home, instance=name)
    built = build(settings, cluster=cluster, engine=engine, renewals=renewals, owner=name)
    stack.push_async_callback(built.http.aclose)
    stack.push_async_callback(built.worlds.model_http.aclose)
    await stack.enter_async_context(_events(cluster, signs))
    await stack.enter_async_context(_alerts(built, signs))
    workers = await _listen(stack, "FLEETAGENT_WORKER_LISTEN", settings.worker_listen, built.workers.app(), Crowd())
    app, live = open_web(stack, settings, built, kubernetes)
    web = await _listen(stack, "FLEETAGENT_WEB_LISTEN", settings.web_listen, app)
    await stack.enter_async_context(live)
    log.info("listening: %s, %s, %s", health, workers, web)
    stack.push_async_callback(built.triggers.close)
    return built


@contextlib.asynccontextmanager
async def _ending_when_one_is_back(kubernetes: Kubernetes, told_to_end: asyncio.Event) -> AsyncIterator[None]:
    """The next process takes it up: kopf, once it runs, takes up no further namespace."""

    async def wait() -> None:
        log.warning("namespace %s is there again: ending, to begin anew with it", await until_one_is_back(kubernetes))
        told_to_end.set()

    task = asyncio.create_task(wait(), name="namespaces that are left out")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@contextlib.asynccontextmanager
async def _alerts(built: Built, signs: Signs) -> AsyncIterator[None]:
    """Their task, which ends after all agents were let go of: what is under way may take its time."""
    task = asyncio.create_task(built.notices.run(built.triggers.kept, built.triggers.nudge), name="alerts")
    signs.rely_on(task)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await built.notices.close()


@contextlib.asynccontextmanager
async def _events(cluster: KubernetesCluster, signs: Signs) -> AsyncIterator[None]:
    task = asyncio.create_task(cluster.write_events(), name="events")
    signs.rely_on(task)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _listen(
    stack: contextlib.AsyncExitStack, what: str, listen: str, app: Starlette, crowd: Crowd | None = None
) -> str:
    """Where it is then, to be logged once the process is known to have a use."""
    host, port = host_and_port(listen)
    port = await stack.enter_async_context(listening(app, host, port, what=what, crowd=crowd))
    return f"{what} {host}:{port}"


async def _watch(
    settings: Settings,
    built: Built,
    name: str,
    registry: kopf.OperatorRegistry,
    signs: Signs,
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
    signs.begin()
    ready, stop = asyncio.Event(), asyncio.Event()
    watched = asyncio.create_task(_hand_over_on_signal(ready, told_to_end, stop, built, given))
    operating = asyncio.ensure_future(
        kopf.operator(
            registry=registry,
            settings=given,
            clusterwide=not settings.namespaces,
            namespaces=signs.namespaces,
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
