"""The Kubernetes API: Secrets, status, Events, the installation's stop. The asyncio client: the other one blocks."""

import asyncio
import base64
import binascii
import json
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import aiohttp
from kubernetes.aio.client import ApiClient, CoreV1Api, CoreV1Event, CustomObjectsApi
from kubernetes.aio.client.exceptions import ApiException

from fleetagent.agent.telling import told
from fleetagent.domain.resource import GROUP, KIND, PLURAL, VERSION
from fleetagent.domain.sparing import Sparing
from fleetagent.domain.text import clean
from fleetagent.errors import Denied, TryLater

log = logging.getLogger(__name__)

RUN = f"{GROUP}/run"
"""The annotation by which an Event names the run that it speaks of."""
LEVELS = {"Warning": logging.WARNING}

STOP_CONFIG_MAP = "fleetagent-stop"
TIMEOUT_SECONDS = 15
SECRET_LIFE_SECONDS = 15.0
EVENTS_WAITING_AT_MOST = 500
LEFT_OUT_TOLD_AFTER_SECONDS = 60
LONGEST_EVENT = 1000
LONGEST_REASON = 300


class KubernetesCluster:
    """Implements `ports.Cluster`. Events are written by a task of their own: nobody waits for them."""

    def __init__(self, client: ApiClient, *, home: str, instance: str) -> None:
        self._core = CoreV1Api(client)
        self._custom = CustomObjectsApi(client)
        self._home = home
        self._instance = instance
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue(EVENTS_WAITING_AT_MOST)
        self._sparing = Sparing(time.monotonic)
        self._secrets: dict[tuple[str, str], tuple[float, Mapping[str, str]]] = {}

    async def secret(self, namespace: str, name: str, key: str) -> str:
        """See `ports.Cluster.secret`."""
        values = await self.secret_map(namespace, name)
        if key not in values:
            self._secrets.pop((namespace, name), None)
            raise Denied("SecretKeyMissing", f"Secret {namespace}/{name} has no key {key!r}: add it")
        return values[key]

    async def secret_map(self, namespace: str, name: str) -> Mapping[str, str]:
        """See `ports.Cluster.secret_map`; a value may be a few seconds old, so that a burst asks once."""
        known = self._secrets.get((namespace, name))
        if known is not None and time.monotonic() - known[0] < SECRET_LIFE_SECONDS:
            return known[1]
        try:
            found = await self._core.read_namespaced_secret(name, namespace, _request_timeout=TIMEOUT_SECONDS)
        except ApiException as error:
            if error.status == 404:
                raise Denied("SecretMissing", f"Secret {namespace}/{name} does not exist: create it") from error
            if error.status == 403:
                raise Denied("SecretForbidden", f"the operator may not read Secret {namespace}/{name}") from error
            raise TryLater(f"Secret {namespace}/{name}: the API server answered {error.status}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TryLater(f"Secret {namespace}/{name}: {error!r}") from error
        values = {key: _decoded(value) for key, value in (found.data or {}).items()}
        self._secrets[namespace, name] = (time.monotonic(), values)
        return values

    async def patch_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See `ports.Cluster.patch_status`."""
        try:
            found: Any = await self._custom.patch_namespaced_custom_object_status(
                GROUP,
                VERSION,
                namespace,
                PLURAL,
                name,
                {"status": dict(status)},
                _content_type="application/merge-patch+json",
                _request_timeout=TIMEOUT_SECONDS,
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise TryLater(f"status of {namespace}/{name}: {error.status} {servers_words(error)}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TryLater(f"status of {namespace}/{name}: {error!r}") from error
        return found.get("status") or {}

    async def event(self, namespace: str, name: str, uid: str, *, kind: str, reason: str, message: str) -> None:
        """See `ports.Cluster.event`."""
        about = (namespace, name, uid)
        told_already = self._sparing.leaves_out(about)
        words = self._sparing.words(about, kind, reason, message)
        if words is not None:
            self._queue_event(about, kind, reason, words)
        elif self._sparing.leaves_out(about) and not told_already:
            asyncio.get_running_loop().call_later(LEFT_OUT_TOLD_AFTER_SECONDS, self._tell_left_out, about)

    def _tell_left_out(self, about: tuple[str, str, str]) -> None:
        message = self._sparing.left_out(about)
        self._queue_event(about, kind="Warning", reason="EventsLeftOut", message=message)

    def _queue_event(self, about: tuple[str, str, str], kind: str, reason: str, message: str) -> None:
        namespace, name, uid = about
        message = clean(message, LONGEST_EVENT)
        extra = {"agent": f"{namespace}/{name}", "event": reason}
        log.log(LEVELS.get(kind, logging.INFO), "%s/%s: %s: %s", namespace, name, reason, message, extra=extra)
        run = told().get("run")
        now = datetime.now(UTC)  # noqa: TID251  # an Event's time is when it is said
        event = {
            "metadata": {
                "name": f"{name[:230]}.{uuid4().hex[:12]}",
                "namespace": namespace,
                **({} if run is None else {"annotations": {RUN: str(run)}}),
            },
            "involvedObject": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": KIND,
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "fleetagent"},
            "reportingComponent": "fleetagent.dev/operator",
            "reportingInstance": self._instance,
            "action": reason,
            "firstTimestamp": now.isoformat(timespec="seconds"),
            "lastTimestamp": now.isoformat(timespec="seconds"),
            "eventTime": now.isoformat(timespec="microseconds"),
            "count": 1,
        }
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            log.warning("%s/%s: Event %s was dropped, too many wait", namespace, name, reason)

    async def write_events(self) -> None:
        """The task that writes Events, one after the other, until it is cancelled."""
        while True:
            event = await self._events.get()
            where = f"{event['metadata']['namespace']}/{event['involvedObject']['name']}"
            try:
                await self._core.create_namespaced_event(
                    event["metadata"]["namespace"], CoreV1Event.model_validate(event), _request_timeout=TIMEOUT_SECONDS
                )
            except (ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
                status = error.status if isinstance(error, ApiException) else repr(error)
                log.warning("%s: Event %s was not written: %s", where, event["reason"], status)

    async def installation_stop(self) -> str | None:
        """See `ports.Cluster.installation_stop`."""
        try:
            found = await self._core.read_namespaced_config_map(
                STOP_CONFIG_MAP, self._home, _request_timeout=TIMEOUT_SECONDS
            )
        except ApiException as error:
            if error.status == 404:
                return None
            return f"ConfigMap {self._home}/{STOP_CONFIG_MAP} cannot be read (the API server answered {error.status})"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return f"ConfigMap {self._home}/{STOP_CONFIG_MAP} cannot be read ({error!r})"
        reason = clean(str((found.data or {}).get("reason", "")), 200)
        return f"ConfigMap {self._home}/{STOP_CONFIG_MAP} exists" + (f": {reason}" if reason else "")


def servers_words(error: ApiException) -> str:
    """The API server's own sentence, in one line, without the JSON around it."""
    try:
        said = json.loads(error.body or "")["message"]
    except (ValueError, LookupError, TypeError):
        said = error.body or error.reason
    return " ".join(clean(str(said), LONGEST_REASON).split())


def _decoded(value: str | bytes) -> str:
    """A Secret's value as text, the line break at its end left out: files that people make Secrets from have one."""
    try:
        return base64.b64decode(value).decode("utf-8", "replace").rstrip("\r\n")
    except binascii.Error:
        return ""
