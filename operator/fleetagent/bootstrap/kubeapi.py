"""A client for the API server that is known to serve us: who we are, what we may, whether it has our resource."""

import os
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration, CustomObjectsApi
from kubernetes.aio.client.exceptions import ApiException
from yaml import YAMLError

from fleetagent.adapters.cluster import servers_words
from fleetagent.domain.resource import GROUP, PLURAL, VERSION
from fleetagent.domain.text import clean
from fleetagent.errors import CannotStart

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
REACH_SECONDS = 10
LONGEST_REASON = 300


async def open_kubernetes(stack: AsyncExitStack, namespaces: tuple[str, ...]) -> tuple[ApiClient, str]:
    """A client that the stack closes, and the namespace that is home: the pod's, else the kubeconfig context's.

    `CannotStart` when the API server cannot be reached, does not know us or our resource, or lets us list none.
    """
    configuration = Configuration()
    home = _pod_namespace()
    try:
        if home is not None:
            kube_config.load_incluster_config(client_configuration=configuration)
        else:
            await kube_config.load_kube_config(client_configuration=configuration)
            _, context = kube_config.list_kube_config_contexts()
            home = str(context["context"].get("namespace") or "default")
    except (kube_config.ConfigException, YAMLError, OSError, LookupError, TypeError, ValueError) as error:
        shown = os.environ.get("KUBECONFIG") or "not set: ~/.kube/config is read"
        raise CannotStart(f"no Kubernetes API server is configured (KUBECONFIG is {shown}): {_line(error)}") from error
    api = await stack.enter_async_context(ApiClient(configuration))
    await _list_one(api, configuration.host, namespaces)
    return api, home


def _pod_namespace() -> str | None:
    return POD_NAMESPACE.read_text().strip() if POD_NAMESPACE.exists() else None


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
        raise CannotStart(f"the Kubernetes API server at {host} cannot be reached: {_line(error)}") from error


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


def _line(said: object) -> str:
    words = " ".join(clean(str(said), 4 * LONGEST_REASON).split())
    return words[:LONGEST_REASON] or type(said).__name__
