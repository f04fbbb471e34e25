"""The one door of page and API: nobody passes it unknown, and nothing that another site has sent."""

import asyncio
import hashlib
import re
from collections import OrderedDict
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetagent.domain.allowance import Allowances
from fleetagent.entrypoints.guarded import peer_of
from fleetagent.entrypoints.web.place import Place, on_loopback
from fleetagent.entrypoints.web.refusals import HEADERS, Refusals
from fleetagent.entrypoints.web.sessions import Session, Sessions
from fleetagent.entrypoints.web.visitor import LOG_IN, Visitor, bearer_token
from fleetagent.errors import FleetAgentError, NotAllowed, NotSignedIn, TooOften
from fleetagent.ports.callers import Callers

LARGEST_BODY = 65_536
BODY_SECONDS = 20
STRANGERS_OF_A_PEER = 60, 1.0
"""So many tokens that are new to us at once, and one more in each so many seconds."""
MOST_KNOWN = 4_096

_OPEN_TO_ALL = re.compile(r"/login|/static/.*|/favicon\.ico", re.DOTALL)
_OF_A_NAMESPACE = re.compile(r"/(?:agents|api/v1/namespaces)/([^/]*)(?:/.*)?", re.DOTALL)
_READS_ONLY = {"GET", "HEAD", "OPTIONS"}


class Visitors:
    """Finds out who asks. `without_login`: everybody on this machine is that one session."""

    def __init__(
        self,
        callers: Callers,
        sessions: Sessions,
        place: Place,
        strangers: Allowances,
        without_login: Session | None = None,
    ) -> None:
        self.callers = callers
        self.sessions = sessions
        self.place = place
        self.without_login = without_login
        self._strangers = strangers
        self._known: OrderedDict[str, None] = OrderedDict()

    async def of(self, request: Request, body: bytes) -> Visitor:
        """`NotSignedIn` for who is unknown, `NotAllowed` for a change that our own pages have not sent."""
        header = request.headers.get("authorization")
        if header is not None:
            token = bearer_token(header)
            # A login in front of us may put the header on whatever a browser sends: programs say no origin.
            self._must_be_own(request)
            return Visitor(self.callers, token, await self.named(request, token))
        session = self.without_login or self.sessions.find(self.cookie_of(request))
        if session is None:
            raise NotSignedIn(LOG_IN)
        self._must_be_own(request)
        self._must_be_of(session, request, body)
        try:
            name = await self.callers.name(session.token)
        except NotSignedIn:
            self.sessions.close(session)
            raise
        return Visitor(self.callers, session.token, name, session, None if self.without_login else self.sessions)

    async def named(self, request: Request, token: str) -> str | None:
        """As whom the API server knows this token. Who tries one after the other has to wait."""
        key = hashlib.sha256(token.encode()).hexdigest()
        if key not in self._known and (wait := self._strangers.wait_seconds(peer_of(request.client))):
            raise TooOften(
                "too many tokens were tried from this address: wait a little", retry_after_seconds=int(wait) + 1
            )
        name = await self.callers.name(token)
        self._known[key] = None
        self._known.move_to_end(key)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return name

    def cookie_of(self, request: Request) -> str | None:
        """The session cookie's value."""
        return request.cookies.get(self.place.cookie(request))

    def _must_be_own(self, request: Request) -> None:
        if request.method not in _READS_ONLY and not self.place.own(request):
            raise NotAllowed("this was not sent by a page of ours: open it here and try again")

    def _must_be_of(self, session: Session, request: Request, body: bytes) -> None:
        if request.method not in _READS_ONLY:
            said = request.headers.get("x-csrf-token") or _form_field(request, body, "csrf")
            if not session.has_csrf(said):
                raise NotAllowed("this was sent by no page of ours, or by one of an earlier session: load it again")


class Guard:
    """ASGI middleware around everything that is served. Endpoints find the visitor in the scope."""

    def __init__(self, app: ASGIApp, visitors: Visitors, refusals: Refusals) -> None:
        self._app = app
        self._visitors = visitors
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, send = Request(scope, receive), with_headers(send)
        try:
            if self._visitors.without_login is not None and not on_loopback(request):
                raise NotAllowed("without login, this page answers to the names of this machine alone: use localhost")
            body = b"" if request.method in _READS_ONLY else await _body(request)
            if not self._open_to_all(request):
                scope["fleetagent.visitor"] = visitor = await self._visitors.of(request, body)
                if found := _OF_A_NAMESPACE.fullmatch(scope["path"]):
                    await visitor.must_read(found[1])
        except ClientDisconnect:
            return
        except (FleetAgentError, HTTPException) as error:
            answer = await self._refusals.named(request, error)
            await answer(scope, receive, send)
            return
        await self._app(scope, receive if request.method in _READS_ONLY else _again(body, receive), send)

    def _open_to_all(self, request: Request) -> bool:
        """Prometheus comes from within the cluster, with no token; by the public name anybody could."""
        path = request.scope["path"]  # never `request.url`: it is made of the Host header, too
        return bool(_OPEN_TO_ALL.fullmatch(path)) or (path == "/metrics" and not self._visitors.place.public(request))


def with_headers(send: Send) -> Send:
    """Puts on each answer what all of them carry."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in there]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def _body(request: Request) -> bytes:
    """All of it; no more is read than may be said, and not for longer than that takes."""
    parts, length = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                length += len(part)
                if length > LARGEST_BODY:
                    raise HTTPException(413)
                parts.append(part)
    except TimeoutError as error:
        raise HTTPException(408) from error
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, for whoever serves the request."""
    left: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return left.pop() if left else await receive()

    return receiving


def _form_field(request: Request, body: bytes, name: str) -> str | None:
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return None
    try:
        return parse_qs(body.decode("utf-8"), max_num_fields=200).get(name, [None])[0]
    except ValueError:
        return None
