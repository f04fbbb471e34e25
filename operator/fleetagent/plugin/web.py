"""Our API, asked with the user's own token: what only the database knows."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from fleetagent.domain.records import AgentKey
from fleetagent.errors import (
    BadReply,
    BadRequest,
    Conflict,
    FleetAgentError,
    NotAllowed,
    NotSignedIn,
    TooOften,
    TryLater,
)
from fleetagent.plugin.apiserver import Json, part
from fleetagent.plugin.failures import NotFound, WayGone
from fleetagent.plugin.forward import forwarded
from fleetagent.plugin.person import Person
from fleetagent.plugin.tokens import token_for_web

WITHIN_SECONDS = 30.0
PORTION = 200
MOST_PORTIONS = 50
"""Where a filter leaves little, a portion may be empty and not the last one."""


class Web:
    """GETs of the API below one base URL. No redirect is followed: the token is for this server alone.

    `stands` tells whether the way there is still ours; `WayGone` when it is not.
    """

    def __init__(self, base: str, token: str, stands: Callable[[], bool] = lambda: True) -> None:
        self.base = base
        self._stands = stands
        self._client = httpx.Client(
            base_url=f"{base}/api/v1",
            headers={"Authorization": f"Bearer {token}", "User-Agent": "kubectl-fleetagent"},
            timeout=WITHIN_SECONDS,
            trust_env=not is_loopback(base),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._client.close()

    def get(self, path: str, **query: Any) -> Json:
        """The answer's JSON object; what is None is not asked for."""
        self._see_the_way()
        with _translated(self.base):
            answer = self._client.get(path, params=_params(query))
            return _object(answer)

    def items(self, path: str, limit: int, **query: Any) -> Json:
        """At most so many rows of a list, page by page: {"items": […]}, with `next` where there is more."""
        found: list[Any] = []
        after: str | None = None
        for _ in range(MOST_PORTIONS):
            page = self.get(path, limit=min(PORTION, limit - len(found)), after=after, **query)
            found += _items(page, self.base)
            after = page.get("next")
            if after is None or len(found) >= limit:
                break
        return {"items": found, **({"next": after} if after else {})}

    def lines(self, path: str) -> Iterator[str]:
        """A text answer, line by line, as it comes."""
        self._see_the_way()
        with _translated(self.base), self._client.stream("GET", path) as answer:
            if answer.status_code >= 400:
                answer.read()
                _object(answer)
            yield from answer.iter_lines()

    def _see_the_way(self) -> None:
        if not self._stands():
            raise WayGone("the port-forward has ended: the operator was restarted perhaps; ask again")


@contextmanager
def open_web(person: Person) -> Iterator[Web]:
    """By --server, else by a port-forward to the operator."""
    server: str | None = person.args.server
    if server is not None:
        base = checked(server)
        with Web(base, token_for_web(person)) as web:
            yield web
        return
    token = token_for_web(person)
    with forwarded(person) as (base, stands), Web(base, token, stands) as web:
        yield web


def below(key: AgentKey, path: str = "") -> str:
    """The address of an agent, or of something of it."""
    return f"/namespaces/{part(key.namespace)}/agents/{part(key.name)}{path}"


def checked(server: str) -> str:
    """The base URL; `BadRequest` for one by which the token would travel readable for everybody."""
    try:
        parts = urlsplit(server)
        whole = parts.port != 0 and bool(parts.hostname) and httpx.URL(server).is_absolute_url
    except (ValueError, httpx.InvalidURL):
        whole = False
    if not whole or parts.scheme not in {"http", "https"} or parts.query or parts.fragment or parts.username:
        raise BadRequest("--server must be a base URL, such as https://fleetagent.example.com")
    if parts.scheme == "http" and not is_loopback(server):
        raise BadRequest("--server must begin with https:// unless it is on this machine: it is sent your token")
    return server.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether it leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _params(query: Mapping[str, Any]) -> dict[str, str]:
    return {name: _param(value) for name, value in query.items() if value is not None}


def _param(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


ERRORS: Mapping[int, type[FleetAgentError]] = {
    400: BadRequest,
    401: NotSignedIn,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: BadRequest,
}


def _items(page: Json, base: str) -> list[Any]:
    if not isinstance(page.get("items"), list):
        raise BadReply(f"{base} does not answer as FleetAgent's API does; is the address right?")
    return list(page["items"])


def _object(answer: httpx.Response) -> Json:
    try:
        said = answer.json()
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise TryLater(
            f"{answer.url.host} does not answer as FleetAgent's API does ({answer.status_code}); is the address right?"
        )
    if answer.status_code < 400:
        return said
    message = str(said.get("message", f"the API answered {answer.status_code}"))
    if answer.status_code == 429:
        raise TooOften(message, retry_after_seconds=1)
    raise ERRORS.get(answer.status_code, TryLater)(message)


@contextmanager
def _translated(base: str) -> Iterator[None]:
    """Let no httpx exception out."""
    try:
        yield
    except httpx.HTTPError as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise TryLater(f"the API at {base} cannot be reached: {why}; does the operator run?") from error
