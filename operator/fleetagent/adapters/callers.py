"""Kubernetes in a caller's name: each request carries the caller's own token and nothing of ours."""

import asyncio
import hashlib
import json
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeVar

import httpx
from kubernetes.aio.client import Configuration

from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import GROUP, PLURAL, VERSION
from fleetagent.domain.text import clean
from fleetagent.errors import BadRequest, Conflict, NotAllowed, NotSignedIn, TryLater

REMEMBERED_SECONDS = 30.0
MOST_REMEMBERED = 8_192
TIMEOUT_SECONDS = 10.0
CONNECTIONS = 20
LONGEST_REASON = 300
FIELD_MANAGER = "fleetagent-web"
"""Who changed it, as `managedFields` says; the audit log of the API server names the caller besides."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

T = TypeVar("T")


def callers_client(configuration: Configuration) -> httpx.AsyncClient:
    """To the API server that serves us, as nobody: neither our token nor our certificate, and no redirect followed.

    It keeps no cookies: what a proxy before the API server gives one caller would speak for all others.
    """
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return httpx.AsyncClient(
        base_url=configuration.host,
        verify=context,
        proxy=configuration.proxy,
        timeout=TIMEOUT_SECONDS,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
    )


class KubernetesCallers:
    """Implements `ports.callers.Callers`. Answers, refusals too, are remembered under the token's hash."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        server_name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = http
        self._extensions = {"sni_hostname": server_name} if server_name else {}
        self._clock = clock
        self._remembered: OrderedDict[tuple[str, ...], tuple[float, Any]] = OrderedDict()
        self._asked: dict[tuple[str, ...], asyncio.Task[Any]] = {}

    async def name(self, token: str) -> str | None:
        """See `ports.callers.Callers.name`."""
        return await self._once(token, ("name",), lambda: self._name(token))

    async def may_read(self, token: str, namespace: str) -> bool:
        """See `ports.callers.Callers.may_read`."""
        return await self._may(token, "get", namespace)

    async def may_steer(self, token: str, namespace: str) -> bool:
        """See `ports.callers.Callers.may_steer`."""
        return await self._may(token, "patch", namespace)

    async def resource(self, token: str, key: AgentKey) -> Mapping[str, Any] | None:
        """See `ports.callers.Callers.resource`."""
        if not (_NAME.fullmatch(key.namespace) and _NAME.fullmatch(key.name)):
            return None
        status, body = await self._call(token, "GET", f"{_agents(key.namespace)}/{key.name}")
        return None if status == 404 else _found(status, body)

    async def resources(self, token: str, namespace: str) -> tuple[Mapping[str, Any], ...]:
        """See `ports.callers.Callers.resources`."""
        if namespace and not _NAME.fullmatch(namespace):
            return ()
        status, body = await self._call(token, "GET", _agents(namespace))
        return tuple(_found(status, body)["items"])

    async def patch(self, token: str, key: AgentKey, change: Mapping[str, Any]) -> None:
        """See `ports.callers.Callers.patch`."""
        if not (_NAME.fullmatch(key.namespace) and _NAME.fullmatch(key.name)):
            raise Conflict(f"there is no FleetAgent {key}")
        status, body = await self._call(
            token, "PATCH", f"{_agents(key.namespace)}/{key.name}?fieldManager={FIELD_MANAGER}", change
        )
        if status == 404:
            raise Conflict(f"there is no FleetAgent {key} any more")
        _found(status, body)

    async def _may(self, token: str, verb: str, namespace: str) -> bool:
        if namespace and not _NAME.fullmatch(namespace):
            return False
        return await self._once(token, (verb, namespace), lambda: self._review(token, verb, namespace))

    async def _review(self, token: str, verb: str, namespace: str) -> bool:
        asked = {"group": GROUP, "resource": PLURAL, "verb": verb, "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return _found(*await self._call(token, "POST", path, review)).get("status", {}).get("allowed") is True

    async def _name(self, token: str) -> str | None:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        status, body = await self._call(token, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        if status in {403, 404}:  # the caller is known, whatever this server lets it ask
            return None
        name = _found(status, body)["status"]["userInfo"].get("username")
        return clean(str(name), 200) if name else None

    async def _once(self, token: str, about: tuple[str, ...], ask: Callable[[], Awaitable[T]]) -> T:
        """What was answered within the last seconds, else the answer to one question, however many wait for it."""
        key = (hashlib.sha256(token.encode()).hexdigest(), *about)
        known = self._remembered.get(key)
        if known is not None and self._clock() < known[0]:
            answer: T = known[1]
            return answer
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = asyncio.ensure_future(self._remember(key, ask))
            asked.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(asked)

    def _answered(self, key: tuple[str, ...], asked: asyncio.Task[Any]) -> None:
        self._asked.pop(key, None)
        if not asked.cancelled():
            asked.exception()  # whoever waited has it; when all of them have gone, nobody needs it

    async def _remember(self, key: tuple[str, ...], ask: Callable[[], Awaitable[T]]) -> T:
        until = self._clock() + REMEMBERED_SECONDS
        answer = await ask()
        self._remembered.pop(key, None)
        self._remembered[key] = (until, answer)
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return answer

    async def _call(
        self, token: str, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        elif body is not None:
            headers["Content-Type"] = "application/json"
        content = None if body is None else json.dumps(body)
        try:
            response = await self._http.request(
                method, path, content=content, headers=headers, extensions=self._extensions
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TryLater(f"the Kubernetes API server does not answer ({type(error).__name__}): try again") from error
        if response.status_code == 401:
            raise NotSignedIn("the Kubernetes API server does not know the token, or not any more: sign in anew")
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise TryLater(f"the Kubernetes API server answered {response.status_code} without an object: try again")
        return response.status_code, answer


def _agents(namespace: str) -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}{within}/{PLURAL}"


def _found(status: int, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object, or what the server's refusal means to the caller."""
    if status in {200, 201}:
        return body
    said = " ".join(clean(str(body.get("message", "")), LONGEST_REASON).split()) or f"it answered {status}"
    if status == 403:
        raise NotAllowed(f"Kubernetes refuses it: {said}")
    if status == 409 and body.get("reason") == "Conflict":
        raise Conflict("somebody else has changed the FleetAgent in between: look at it again, then say it again")
    if status in {400, 409, 413, 422}:
        raise BadRequest(f"Kubernetes refuses it: {said}")
    raise TryLater(f"the Kubernetes API server answered {status} ({said}): try again")
