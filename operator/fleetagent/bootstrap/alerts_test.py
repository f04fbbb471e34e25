"""`fleetagent alerts-test`: one message to each receiver of a FleetAgent's alerts, and what came of it."""

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, CustomObjectsApi
from kubernetes.aio.client.exceptions import ApiException

from fleetagent.adapters.cluster import KubernetesCluster, servers_words
from fleetagent.adapters.notify import ApprisePager
from fleetagent.adapters.reach import Reach
from fleetagent.agent.delivery import addressed
from fleetagent.bootstrap.credentials import Credentials, one_line
from fleetagent.domain.notices import a_test
from fleetagent.domain.receivers import FIELD, Receiver, receivers_in
from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import GROUP, PLURAL, VERSION
from fleetagent.errors import BadResource, CannotStart, Denied, TryLater
from fleetagent.ports.notices import Pager

WITHIN_SECONDS = 10


async def alerts_test(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """Say for each line of the Secret whether its receiver took it. 0 when all did, 3 when some did not."""
    key = AgentKey(args.namespace, args.name)
    credentials = Credentials()
    async with ApiClient(await credentials.load()) as api:
        (to,) = addressed([await _resource(api, key)]).values()
        if to.ref is None:
            raise CannotStart(f"FleetAgent {key} has no spec.alerts: its alerts go nowhere outside")
        try:
            cluster = KubernetesCluster(api, home=credentials.home(), instance="alerts-test")
            receivers = receivers_in(await cluster.secret(key.namespace, to.ref.name, to.ref.key))
        except (Denied, TryLater) as error:
            raise CannotStart(f"{FIELD}: {error}") from error
        except BadResource as error:
            raise CannotStart(str(error)) from error
    allowed = [host.strip() for host in environ.get("FLEETAGENT_ALLOWED_HOSTS", "").split(",") if host.strip()]
    pager = ApprisePager(Reach(allowed))
    taken = [await _send(pager, receiver, key) for receiver in receivers]
    return 0 if all(taken) else 3


async def _send(pager: Pager, receiver: Receiver, key: AgentKey) -> bool:
    try:
        await pager.send(receiver, a_test(key))
    except (BadResource, TryLater) as error:
        sys.stdout.write(f"{error}\n")
        return False
    sys.stdout.write(f"{receiver.name}: taken\n")
    return True


async def _resource(api: ApiClient, key: AgentKey) -> dict[str, Any]:
    """By a list: the operator's own account, with which this is called in its pod, may not get a single one."""
    try:
        found: Any = await CustomObjectsApi(api).list_namespaced_custom_object(
            GROUP,
            VERSION,
            key.namespace,
            PLURAL,
            field_selector=f"metadata.name={key.name}",
            _request_timeout=WITHIN_SECONDS,
        )
    except ApiException as error:
        raise CannotStart(f"FleetAgent {key} cannot be read: {error.status} {servers_words(error)}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise CannotStart(f"the Kubernetes API server cannot be reached: {one_line(error)}") from error
    if not found["items"]:
        raise CannotStart(f"there is no FleetAgent {key}")
    return dict(found["items"][0])
