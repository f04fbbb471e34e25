"""The door of page and API around one small route each, with callers who are made up and a clock that tests move."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.web.app import Pages, visitors, web_app
from fleetagent.entrypoints.web.verbs import Steering
from fleetagent.entrypoints.web.visitor import visitor
from fleetagent.errors import Conflict, NotAllowed, NotSignedIn, TryLater
from support.manifests import Json, merged

BEGAN = datetime(2026, 12, 1, 8, tzinfo=UTC)
ADMIN, VIEWER, OURS_ALONE = "admin-token", "viewer-token", "ours-token"
LOOPBACK = "http://127.0.0.1:8080"


@dataclass
class MadeUpCallers:
    """An API server with three callers: an admin, one who reads, and an admin of the namespace `ours` alone."""

    names: dict[str, str] = field(default_factory=lambda: {ADMIN: "admin", VIEWER: "viewer", OURS_ALONE: "our-admin"})
    agents: dict[AgentKey, Json] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    patches: list[Mapping[str, Any]] = field(default_factory=list)
    away: bool = False
    in_between: list[Mapping[str, Any]] = field(default_factory=list)
    """What others write between somebody's look and patch, one for each patch."""

    async def name(self, token: str) -> str | None:
        self._known("name", token)
        return self.names[token]

    async def may_read(self, token: str, namespace: str) -> bool:
        self._known("may_read", token)
        return token != OURS_ALONE or namespace == "ours"

    async def may_steer(self, token: str, namespace: str) -> bool:
        return token != VIEWER and await self.may_read(token, namespace)

    async def resource(self, token: str, key: AgentKey) -> Mapping[str, Any] | None:
        if not await self.may_read(token, key.namespace):
            raise NotAllowed("Kubernetes refuses it")
        return self.agents.get(key)

    async def resources(self, token: str, namespace: str) -> tuple[Mapping[str, Any], ...]:
        self._known("resources", token)
        return tuple(agent for key, agent in self.agents.items() if namespace in {"", key.namespace})

    async def patch(self, token: str, key: AgentKey, change: Mapping[str, Any]) -> None:
        if not await self.may_steer(token, key.namespace):
            raise NotAllowed("Kubernetes refuses it")
        if self.in_between:
            self.store(key, self.in_between.pop(0))
        seen = change.get("metadata", {}).get("resourceVersion")
        if seen is not None and seen != self.agents[key]["metadata"]["resourceVersion"]:
            raise Conflict("somebody else was faster")
        self.patches.append(change)
        self.store(key, change)

    def store(self, key: AgentKey, change: Mapping[str, Any]) -> None:
        """Write it, under a new version."""
        agent = self.agents.get(key, {"metadata": {"resourceVersion": "0", "annotations": {}}})
        version = str(int(agent["metadata"]["resourceVersion"]) + 1)
        self.agents[key] = merged(merged(agent, change), {"metadata": {"resourceVersion": version}})

    def _known(self, what: str, token: str) -> None:
        self.asked.append((what, token))
        if self.away:
            raise TryLater("the Kubernetes API server does not answer: try again")
        if token not in self.names:
            raise NotSignedIn("the Kubernetes API server does not know the token")


@dataclass
class Door:
    """The app, and the clock that it sees."""

    callers: MadeUpCallers
    url: str | None = None
    without_login: str | None = None
    now: datetime = BEGAN
    heard_values: set[str] = field(default_factory=set)
    hears_next: set[str] = field(default_factory=set)
    """What the operator hears as soon as somebody waits for it."""

    def __post_init__(self) -> None:
        self.visitors = visitors(
            self.callers,
            url=self.url,
            now=lambda: self.now,
            clock=self.seconds,
            without_login=self.without_login,
        )
        pages = Pages([Route(path, _told, methods=["GET", "POST"]) for path in PATHS], _login_page, _error_page)
        self.app = web_app(
            self.visitors,
            metrics=lambda: [b"up 1\n"],
            api=[Route("/namespaces/{namespace}/told", _told), Route("/fault", _fault)],
            pages=pages,
            steer=Steering(lambda: self.now, self.heard, self.sleep),
        )

    def seconds(self) -> float:
        """Since the test began."""
        return (self.now - BEGAN).total_seconds()

    async def heard(self, key: AgentKey, name: str, value: str) -> bool:  # noqa: ARG002
        """Whether the operator has heard this."""
        return value in self.heard_values

    async def sleep(self, seconds: float) -> None:
        """Time passes, and the operator hears what it hears meanwhile."""
        self.later(seconds=seconds)
        self.heard_values |= self.hears_next

    def later(self, **span: float) -> None:
        """Let time pass."""
        self.now += timedelta(**span)

    def browser(self, base_url: str = LOOPBACK, **headers: str) -> httpx.AsyncClient:
        """A client that keeps cookies and takes pages; it follows no redirect."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=base_url, headers={"accept": "text/html", **headers})

    def program(self, token: str | None = None) -> httpx.AsyncClient:
        """A client with a Bearer token."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.AsyncClient(transport=transport, base_url=LOOPBACK, headers=headers)


PATHS = ("/", "/told", "/agents/{namespace}/{name}", "/agents/{namespace}/{name}/do/{verb}")


async def sign_in(browser: httpx.AsyncClient, token: str = ADMIN, **form: str) -> httpx.Response:
    """Send the login form."""
    return await browser.post("/login", data={"token": token, **form})


async def csrf_of(browser: httpx.AsyncClient) -> str:
    """What the page gives to its own forms."""
    told: dict[str, Any] = (await browser.get("/told")).raise_for_status().json()
    return str(told["csrf"])


async def _told(request: Request) -> Response:
    who = visitor(request)
    return JSONResponse({"name": who.name, "csrf": who.csrf, "body": (await request.body()).decode()})


async def _fault(_: Request) -> Response:
    raise ValueError("the secret of all secrets")


def _login_page(_: Request, *, next_path: str, failed: str | None) -> Response:
    return PlainTextResponse(json.dumps({"next": next_path, "failed": failed}))


def _error_page(_: Request, status: int, word: str, message: str) -> Response:
    return PlainTextResponse(f"page of {word}: {message}", status)


def flags_of(response: httpx.Response) -> set[str]:
    """The attributes of the one cookie that is set, in lower case, its name first without the value."""
    (cookie,) = response.headers.get_list("set-cookie")
    return {re.sub(r"^(fleetagent|__Host-fleetagent)=.*", r"\1", part.strip()).lower() for part in cookie.split(";")}
