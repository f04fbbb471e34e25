"""The operator process: settings, database, API server, listeners, kopf; and a common end."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import sqlalchemy as sa
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration, VersionApi
from kubernetes.aio.client.exceptions import ApiException

from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.bootstrap.build import Built, build
from fleetagent.entrypoints import handlers
from fleetagent.entrypoints.health import health_app
from fleetagent.entrypoints.listen import listening
from fleetagent.errors import CannotStart
from fleetagent.settings import Settings, host_and_port

log = logging.getLogger(__name__)

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
REACH_SECONDS = 10


async def serve(settings: Settings) -> None:
    """Run the operator until SIGTERM or SIGINT. `CannotStart` when the process would have no use."""
    database_url = settings.database_url.get_secret_value()
    await asyncio.to_thread(migrate_to_head, database_url)
    async with contextlib.AsyncExitStack() as stack:
        engine = open_engine(database_url, settings.database_pool)
        stack.push_async_callback(engine.dispose)
        api, home = await _kubernetes()
        await stack.enter_async_context(api)
        built = build(settings, api=api, engine=engine, home=home)
        stack.push_async_callback(built.http.aclose)
        stack.push_async_callback(built.worlds.model_http.aclose)
        await stack.enter_async_context(_events(built))
        ready = asyncio.Event()
        await _listeners(stack, settings, built, ready)
        stack.push_async_callback(built.triggers.close)
        await _watch(settings, built, ready)


async def _kubernetes() -> tuple[ApiClient, str]:
    """A client for the API server, and the namespace that is home: the pod's, else the kubeconfig context's."""
    configuration = Configuration()
    try:
        if POD_NAMESPACE.exists():
            kube_config.load_incluster_config(client_configuration=configuration)
            home = POD_NAMESPACE.read_text().strip()
        else:
            await kube_config.load_kube_config(client_configuration=configuration)
            _, context = kube_config.list_kube_config_contexts()
            home = context["context"].get("namespace") or "default"
    except (kube_config.ConfigException, OSError, KeyError, TypeError) as error:
        shown = os.environ.get("KUBECONFIG", "~/.kube/config")
        raise CannotStart(f"no Kubernetes API server is configured (KUBECONFIG is {shown}): {error}") from error
    api = ApiClient(configuration)
    try:
        await VersionApi(api).get_code(_request_timeout=REACH_SECONDS)
    except (ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
        await api.close()
        reason = f"it answered {error.status}" if isinstance(error, ApiException) else str(error) or repr(error)
        raise CannotStart(f"the Kubernetes API server at {configuration.host} cannot be used: {reason}") from error
    return api, home


@contextlib.asynccontextmanager
async def _events(built: Built) -> AsyncIterator[None]:
    task = asyncio.create_task(built.cluster.write_events(), name="events")
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
    for app, listen, what in (
        (built.workers.app(), settings.worker_listen, "FLEETAGENT_WORKER_LISTEN"),
        (health, settings.health_listen, "FLEETAGENT_HEALTH_LISTEN"),
    ):
        host, port = host_and_port(listen)
        port = await stack.enter_async_context(listening(app, host, port, what=what))
        log.info("%s: listening on %s:%s", what, host, port)


async def _watch(settings: Settings, built: Built, ready: asyncio.Event) -> None:
    registry = kopf.OperatorRegistry()
    handlers.register(registry, built.triggers, beat_seconds=settings.beat_seconds)

    @kopf.on.login(registry=registry)
    def login(**given: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)

    given = kopf.OperatorSettings()
    handlers.settings(given, namespaced=bool(settings.namespaces))
    stop = asyncio.Event()
    watched = asyncio.create_task(_hand_over_on_signal(ready, stop, built))
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


async def _hand_over_on_signal(ready: asyncio.Event, stop: asyncio.Event, built: Built) -> None:
    """On the first signal let go of every agent at once: kopf takes seconds to end, and another replica could go on."""
    await ready.wait()
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    log.info("asked to end: runs are handed back")
    await built.triggers.close()
    stop.set()
