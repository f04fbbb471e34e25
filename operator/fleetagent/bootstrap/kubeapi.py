"""Clients for the API server that is known to serve us: who we are, what we may, whether it has our resource."""

import asyncio
import contextlib
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import kopf
from kubernetes.aio.client import ApiClient, CustomObjectsApi
from kubernetes.aio.client.exceptions import ApiException

from fleetagent.adapters.cluster import servers_words
from fleetagent.bootstrap.credentials import Credentials, one_line
from fleetagent.domain.resource import GROUP, PLURAL, VERSION
from fleetagent.errors import CannotStart

log = logging.getLogger(__name__)

REACH_SECONDS = 10
LOOKS_AGAIN_SECONDS = 30.0
LOGIN_AGAIN_SECONDS = 5.0
OURSELVES = "fleetagent"
"""Who owns the status, as `managedFields` and audit logs name us; kopf, with its finalizer, is called kopf there."""


@dataclass(slots=True)
class Kubernetes:
    """Our own client, the way in for kopf, and the namespace that is home."""

    api: ApiClient
    home: str
    credentials: Credentials
    proxy: str | None
    refused: tuple[str, ...] = ()
    """Named namespaces whose FleetAgents we may not list, others' we may: they were deleted, and our Role with them."""
    logins: int = field(init=False, default=0)

    async def login(self, notice: aiohttp.ClientMiddlewareType) -> kopf.AiohttpSession:
        """What kopf asks with; it comes again for a new one whenever the server has refused us.

        Not at once: a server that refuses everything must not be asked as fast as it answers. Nor does it end here,
        since it may know us again soon; until when is for the liveness probe to say.
        """
        if self.logins:
            await asyncio.sleep(LOGIN_AGAIN_SECONDS)
        self.logins += 1
        connector = aiohttp.TCPConnector(limit=0, ssl=self.api.rest_client.ssl_context)
        session = aiohttp.ClientSession(
            connector=connector, proxy=self.proxy, middlewares=(notice, self.credentials.present)
        )
        return kopf.AiohttpSession(
            server=self.api.configuration.host, aiohttp_session=session, default_namespace=self.home
        )


def log_in(registry: kopf.OperatorRegistry, kubernetes: Kubernetes, notice: aiohttp.ClientMiddlewareType) -> None:
    """Let kopf use our credentials: its own ways in know less of kubeconfigs, and read a token once."""

    @kopf.on.login(registry=registry, id="login")
    async def login(**_: Any) -> kopf.AiohttpSession:
        return await kubernetes.login(notice)


async def open_kubernetes(
    stack: AsyncExitStack, namespaces: tuple[str, ...], credentials: Credentials | None = None
) -> Kubernetes:
    """Clients that the stack closes.

    `CannotStart` when the API server cannot be reached, does not know us or our resource, or lets us list none. A
    namespace that is refused alone does not keep the agents of the others waiting.
    """
    credentials = credentials or Credentials()
    configuration = await credentials.load()
    api = await stack.enter_async_context(ApiClient(configuration))
    api.user_agent = OURSELVES
    refused = await _refused(api, configuration.host, namespaces)
    return Kubernetes(api, credentials.home(), credentials, configuration.proxy, refused)


async def until_one_is_back(kubernetes: Kubernetes) -> str:
    """Wait until we may list the FleetAgents of a namespace that was refused; its name."""
    while True:
        await asyncio.sleep(LOOKS_AGAIN_SECONDS)
        for namespace in kubernetes.refused:
            with contextlib.suppress(ApiException, aiohttp.ClientError, TimeoutError, OSError):
                await _list_one(kubernetes.api, namespace)
                return namespace


async def _refused(api: ApiClient, host: str, namespaces: tuple[str, ...]) -> tuple[str, ...]:
    """Those of several namespaces that cannot be watched; `CannotStart` if none can."""
    refused: dict[str, ApiException] = {}
    try:
        for namespace in namespaces or (None,):
            try:
                await _list_one(api, namespace)
            except ApiException as error:
                if namespace is None or error.status != 403 or len(refused) + 1 == len(namespaces):
                    raise
                refused[namespace] = error
    except ApiException as error:
        raise CannotStart(f"the Kubernetes API server at {host} cannot be used: {_refusal(error)}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise CannotStart(f"the Kubernetes API server at {host} cannot be reached: {one_line(error)}") from error
    for namespace, refusal in refused.items():
        log.warning("namespace %s is left out until it is there again: %s", namespace, _refusal(refusal))
    return tuple(refused)


async def _list_one(api: ApiClient, namespace: str | None) -> None:
    """One FleetAgent of this namespace, or of all."""
    resources, within = CustomObjectsApi(api), REACH_SECONDS
    if namespace is None:
        await resources.list_cluster_custom_object(GROUP, VERSION, PLURAL, limit=1, _request_timeout=within)
    else:
        await resources.list_namespaced_custom_object(
            GROUP, VERSION, namespace, PLURAL, limit=1, _request_timeout=within
        )


def _refusal(error: ApiException) -> str:
    match error.status:
        case 401:
            return "it does not know us (401): the token or certificate is wrong or has expired"
        case 403:
            said = servers_words(error)
            return f"it forbids us to list FleetAgents (403): apply the chart's roles and bindings ({said})"
        case 404:
            return f"it has no {PLURAL}.{GROUP}/{VERSION} (404): apply what `fleetagent crd` prints"
        case status:
            return f"it answered {status} ({servers_words(error)})"
