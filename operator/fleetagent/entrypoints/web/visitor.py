"""Who is asking: a caller with a Kubernetes token, by header or by the page's session cookie."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.web.sessions import Session, Sessions
from fleetagent.errors import NotAllowed, NotSignedIn
from fleetagent.ports.callers import Callers

ALL_NAMESPACES = ""
ASKED_AT_ONCE = 10
LOG_IN = "sign in with a Kubernetes token"
_BEARER = re.compile(r"bearer +([\x21-\x7e]{1,16384})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody whose token the API server knows. What they may is asked of it, with that token."""

    callers: Callers = field(repr=False)
    token: str = field(repr=False)
    name: str | None = None
    """As the API server calls them, to be shown."""
    session: Session | None = None
    """None for a caller with a Bearer token."""
    sessions: Sessions | None = field(default=None, repr=False)
    """None where one need not log in."""

    @property
    def csrf(self) -> str | None:
        """What the page's own POSTs carry, as header X-CSRF-Token or form field `csrf`."""
        return None if self.session is None else self.session.csrf

    @property
    def can_log_out(self) -> bool:
        """Whether there is a session that the visitor can end."""
        return self.session is not None and self.sessions is not None

    async def reads(self, namespace: str) -> bool:
        """Whether they may read the FleetAgents of a namespace."""
        return await self.callers.may_read(self.token, namespace)

    async def must_read(self, namespace: str) -> None:
        """`NotAllowed` otherwise, in the same words where there is no such namespace."""
        if not await self.reads(namespace):
            raise NotAllowed(
                f"you may not get fleetagents in namespace {namespace[:63]!r}: ask for a role that allows it there,"
                " such as fleetagent-viewer"
            )

    async def readable(self, namespaces: tuple[str, ...]) -> tuple[str, ...]:
        """Those namespaces that they may read; one question for who may read all."""
        if await self.reads(ALL_NAMESPACES):
            return namespaces
        limit = asyncio.Semaphore(ASKED_AT_ONCE)

        async def may(namespace: str) -> bool:
            async with limit:
                return await self.reads(namespace)

        answers = await asyncio.gather(*map(may, namespaces))
        return tuple(each for each, allowed in zip(namespaces, answers, strict=True) if allowed)

    async def may_steer(self, namespace: str) -> bool:
        """Whether they may patch FleetAgents there; only for what is shown."""
        return await self.callers.may_steer(self.token, namespace)

    async def resource(self, key: AgentKey) -> Mapping[str, Any] | None:
        """The FleetAgent as the API server has it; None when there is none."""
        return await self.callers.resource(self.token, key)

    async def resources(self, namespace: str) -> tuple[Mapping[str, Any], ...]:
        """All FleetAgents of a namespace; `NotAllowed` for who may get them one by one, and not list them."""
        return await self.callers.resources(self.token, namespace)

    async def still(self, namespace: str) -> None:
        """For who watches for long: `NotSignedIn` or `NotAllowed` once session or right are gone. No use of either."""
        if self.session is not None and self.sessions is not None and not self.sessions.stands(self.session):
            raise NotSignedIn(f"the session is over: {LOG_IN}")
        await self.must_read(namespace)


def visitor(request: Request) -> Visitor:
    """Who sent this request. The guard has found out before: an endpoint without one is a fault of ours."""
    found: Visitor = request.scope["fleetagent.visitor"]
    return found


def bearer_token(header: str) -> str:
    """The token of an Authorization header; `NotSignedIn` if it holds none that could be one."""
    found = _BEARER.fullmatch(header.strip())
    if found is None:
        raise NotSignedIn("the header must be `Authorization: Bearer <Kubernetes token>`")
    return found[1]
