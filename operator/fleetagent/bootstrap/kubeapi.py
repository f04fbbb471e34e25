"""Clients for the API server that is known to serve us: who we are, what we may, whether it has our resource."""

import asyncio
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

REACH_SECONDS = 10
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

    `CannotStart` when the API server cannot be reached, does not know us or our resource, or lets us list none.
    """
    credentials = credentials or Credentials()
    configuration = await credentials.load()
    api = await stack.enter_async_context(ApiClient(configuration))
    api.user_agent = OURSELVES
    await _list_one(api, configuration.host, namespaces)
    return Kubernetes(api, credentials.home(), credentials, configuration.proxy)


async def _list_one(api: ApiClient, host: str, namespaces: tuple[str, ...]) -> None:
    resources, within = CustomObjectsApi(api), REACH_SECONDS
    try:
        for namespace in namespaces:
            await resources.list_namespaced_custom_object(
                GROUP, VERSION, namespace, PLURAL, limit=1, _request_timeout=within
            )
        if not namespaces:
            await resources.list_cluster_custom_object(GROUP, VERSION, PLURAL, limit=1, _request_timeout=within)
    except ApiException as error:
        raise CannotStart(f"the Kubernetes API server at {host} cannot be used: {_refusal(error)}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise CannotStart(f"the Kubernetes API server at {host} cannot be reached: {one_line(error)}") from error


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
