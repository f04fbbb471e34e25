"""The Kubernetes API server in the user's name: JSON in, JSON out, and each refusal as one sentence."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject
from urllib3.exceptions import HTTPError

from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import GROUP, PLURAL, VERSION
from fleetagent.domain.resource.values import DNS_NAME_PATTERN
from fleetagent.errors import BadRequest, Conflict, FleetAgentError, NotAllowed, NotSignedIn, TryLater
from fleetagent.plugin.failures import NotFound
from fleetagent.plugin.kubeconfig import Login

Json = dict[str, Any]

WITHIN_SECONDS = 15.0
PORTION = 500
RESOURCES = f"/apis/{GROUP}/{VERSION}"
REFUSALS: Mapping[int, tuple[type[FleetAgentError], str]] = {
    400: (BadRequest, "the API server refuses this: {}"),
    403: (NotAllowed, "you may not do this: {}; ask for a role that allows it"),
    404: (NotFound, "{}"),
    409: (Conflict, "{}"),
    413: (BadRequest, "the API server refuses this: {}"),
    422: (BadRequest, "the API server refuses this: {}"),
}
MERGE_PATCH = "application/merge-patch+json"


class ApiServer:
    """Everything goes out with the user's own credentials. What it refuses is the API server's word, not ours."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self._rest = RESTClientObject(login.configuration)

    # --- FleetAgents ---

    def agents(self, namespace: str | None) -> list[Json]:
        """Those of a namespace, or of all, by name."""
        below = f"/namespaces/{part(namespace)}" if namespace is not None else ""
        return sorted(self.everything(f"{RESOURCES}{below}/{PLURAL}"), key=lambda a: (_of(a).namespace, _of(a).name))

    def agent(self, key: AgentKey) -> Json:
        """One FleetAgent, as stored."""
        return self.call("GET", _path(key))

    def patch(self, key: AgentKey, change: Mapping[str, Any]) -> Json:
        """A merge patch; the FleetAgent as it is now. `Conflict` when the patch names an older resourceVersion."""
        return self.call("PATCH", _path(key), change)

    def events(self, key: AgentKey) -> list[Json]:
        """The Events that speak of it."""
        about = {"fieldSelector": f"involvedObject.kind=FleetAgent,involvedObject.name={key.name}"}
        return self.everything(f"/api/v1/namespaces/{part(key.namespace)}/events", about)

    # --- whatever else ---

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Json:
        """The answer's JSON object."""
        try:
            answer = json.loads(self.text(method, path, body))
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise TryLater(
                f"{self.login.server} does not answer as a Kubernetes API server does; is the context right?"
            )
        return answer

    def text(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> str:
        """The answer as it came."""
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "Content-Type": kind, "User-Agent": "kubectl-fleetagent"}
        if authorization := self.login.configuration.get_api_key_with_prefix("BearerToken"):
            headers["authorization"] = authorization
        url = f"{self.login.server}{path}"
        try:
            answer = self._rest.request(method, url, headers=headers, body=body, _request_timeout=WITHIN_SECONDS)  # type: ignore[no-untyped-call]  # the client's
            said = answer.read().decode(errors="replace")
        except (ApiException, HTTPError, OSError) as error:
            raise TryLater(f"the API server at {self.login.server} cannot be reached: {_why(error)}") from error
        if answer.status >= 400:
            raise self._refusal(answer.status, _words(said) or answer.reason)
        return str(said)

    def everything(self, path: str, query: Mapping[str, str] | None = None) -> list[Json]:
        """All objects of a list, however many portions it comes in."""
        asked, found = {"limit": str(PORTION), **(query or {})}, list[Json]()
        while True:
            page = self.call("GET", f"{path}?{urlencode(asked)}")
            found += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return found
            asked["continue"] = token

    def _refusal(self, status: int, words: str) -> FleetAgentError:
        server = self.login.server
        if status == 401:
            return NotSignedIn(
                f"the API server at {server} does not know you (401): the credentials of context "
                f"{self.login.context!r} are wrong or have expired; log in again"
            )
        if status == 404 and not words.endswith(" not found"):
            words = f"{server} has no {PLURAL}.{GROUP}: is FleetAgent installed, and is the context right?"
        if status in REFUSALS:
            kind, sentence = REFUSALS[status]
            return kind(sentence.format(words))
        return TryLater(f"the API server at {server} answered {status}: {words}")


def _of(agent: Json) -> AgentKey:
    meta = agent["metadata"]
    return AgentKey(meta.get("namespace", ""), meta["name"])


def _path(key: AgentKey) -> str:
    return f"{RESOURCES}/namespaces/{part(key.namespace)}/{PLURAL}/{part(key.name)}"


def part(name: str) -> str:
    """A name as a part of an address; `BadRequest` for one that would lead to another address."""
    if not re.fullmatch(DNS_NAME_PATTERN, name):
        raise BadRequest(f"{name!r} is no name: one has small letters, digits, dots and dashes")
    return name


def _words(body: str) -> str:
    """The server's own sentence."""
    try:
        said = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        said = body.strip()
    return said[:600]


def _why(error: BaseException) -> str:
    """The innermost reason: what wraps it repeats the address."""
    while error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        inner = error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)
