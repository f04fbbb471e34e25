"""The peering by which replicas find each other: that it is there, and who of them goes first."""

import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, CustomObjectsApi
from kubernetes.aio.client.exceptions import ApiException

from fleetagent.adapters.cluster import servers_words
from fleetagent.errors import CannotStart

GROUP, VERSION = "kopf.dev", "v1"
CLUSTERWIDE, NAMESPACED = "clusterkopfpeerings", "kopfpeerings"
REACH_SECONDS = 10
TRIAL = "fleetagent-trial"
TRY: Mapping[str, Any] = {"status": {TRIAL: {"lifetime": 0}}}
DEFINITIONS = "apply crds/kopf-peerings.yaml of the chart"

Call = Callable[..., Awaitable[object]]


def priority(started_at: datetime) -> int:
    """The elder goes first: a new version, or a stray process, waits until those before it have ended.

    A replica that starts and fails, again and again, would else interrupt the one that works each time. Within a
    millisecond chance decides: of two with the same priority neither would ever work.
    """
    return ((2**42 - int(started_at.timestamp() * 1000)) << 21) + secrets.randbelow(2**21)


async def check_peering(api: ApiClient, name: str, namespaces: tuple[str, ...]) -> None:
    """`CannotStart` unless the peering can be read and written: kopf would wait for it without a word."""
    for what, plural, read, write in _objects(CustomObjectsApi(api), name, namespaces):
        missing = f"the API server has no {plural}.{GROUP}/{VERSION} (404): {DEFINITIONS}"
        await _asked(partial(read, limit=1), what, missing)
        tried = partial(write, body=TRY, dry_run="All", _content_type="application/merge-patch+json")
        kept = await _asked(tried, what, f"there is no {what} (404): the chart makes it, or you do")
        if TRIAL not in (kept.get("status") or {}):
            raise CannotStart(f"{what} keeps no status: its definition is not the one that kopf needs; {DEFINITIONS}")


def _objects(
    peerings: CustomObjectsApi, name: str, namespaces: tuple[str, ...]
) -> Iterator[tuple[str, str, Call, Call]]:
    """Each object that kopf will use, and how kopf reads and writes it."""
    if not namespaces:
        kind = (GROUP, VERSION, CLUSTERWIDE)
        read = partial(peerings.list_cluster_custom_object, *kind)
        write = partial(peerings.patch_cluster_custom_object, *kind, name)
        yield f"ClusterKopfPeering {name}", CLUSTERWIDE, read, write
    for namespace in namespaces:
        kind_there = (GROUP, VERSION, namespace, NAMESPACED)
        read = partial(peerings.list_namespaced_custom_object, *kind_there)
        write = partial(peerings.patch_namespaced_custom_object, *kind_there, name)
        yield f"KopfPeering {namespace}/{name}", NAMESPACED, read, write


async def _asked(call: Call, what: str, missing: str) -> Any:
    """The API server's answer to this; `CannotStart` names what is missing."""
    try:
        return await call(_request_timeout=REACH_SECONDS)
    except ApiException as error:
        if error.status == 404:
            raise CannotStart(f"FLEETAGENT_PEERING: {missing}") from error
        remedy = ": apply the chart's roles and bindings" if error.status == 403 else ""
        said = f"{what} is refused ({error.status}){remedy} ({servers_words(error)})"
        raise CannotStart(f"FLEETAGENT_PEERING: {said}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise CannotStart(f"FLEETAGENT_PEERING: {what} cannot be reached ({type(error).__name__})") from error
