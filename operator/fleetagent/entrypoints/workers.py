"""What rented machines report: four POSTs below `/workers/<token>`; the token says which machine speaks.

It stands on the open internet. Whoever has no machine's token costs no look at the database and keeps nobody out.
"""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetagent.agent.clock import Now
from fleetagent.domain.allowance import Allowances
from fleetagent.domain.records import AgentKey
from fleetagent.domain.text import neutral
from fleetagent.domain.workers import Registered, WorkerAnswer
from fleetagent.entrypoints.guarded import peer_of
from fleetagent.errors import FleetAgentError

LARGEST_BODY = 16_384
LARGEST_BODY_HEARD = 1_048_576
"""So much of a body that is too large is let go by, so that whoever sends it hears why; then the line is cut."""
ANSWER_SECONDS = 8.0
AT_ONCE = 4
"""Database connections that workers may hold: agents need some too, also when 500 machines call at once."""
CALLS_OF_A_MACHINE = 120, 1.0
STRANGERS_OF_A_PEER = 60, 1.0
"""So many at once, and one more in each so many seconds."""
HIGHEST_RATE = 100_000.0
NOBODY = "00000000-0000-0000-0000-000000000000"
UNKNOWN = "this machine is not known, or has ended"


class WorkerMemory(Protocol):
    """Where workers' facts are kept. None means: no live machine has this token (and uuid)."""

    async def knows(self, token: str) -> bool | None:
        """Whether a live machine has this token, as a rule without a look; None: not known now, ask a little later."""

    async def register(self, token: str, label: str, now: datetime) -> Registered | None:
        """The worker is up; the same pair each time."""

    async def params_done(self, token: str, uuid: str, now: datetime) -> WorkerAnswer | None:
        """The benchmark begins."""

    async def bench_done(self, token: str, uuid: str, rate: float, now: datetime) -> WorkerAnswer | None:
        """The benchmark's result, in proofs per hour."""

    async def running(self, token: str, uuid: str) -> WorkerAnswer | None:
        """The worker makes proofs."""


class Nudged(Protocol):
    """Who wants to know that something was persisted for an agent."""

    def nudge(self, key: AgentKey) -> None:
        """Look soon at what is due for it; returns at once."""


class BadCallError(Exception):
    """The worker's call has no sense; the sentence goes back to it."""


class WorkerEndpoint:
    """Facts in, the agent nudged."""

    def __init__(
        self, memory: WorkerMemory, triggers: Nudged, now: Now, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._memory = memory
        self._triggers = triggers
        self._now = now
        self._machines = Allowances(*CALLS_OF_A_MACHINE, clock)
        self._strangers = Allowances(*STRANGERS_OF_A_PEER, clock)
        self._few = asyncio.Semaphore(AT_ONCE)

    def app(self) -> Starlette:
        """The ASGI application."""
        calls: dict[str, Callable[[str, dict[str, Any]], Awaitable[JSONResponse]]] = {
            "register": self._register,
            "param-done": self._params_done,
            "bench-done": self._bench_done,
            "running": self._running,
        }
        routes = [
            Route(f"/workers/{{token}}/{name}", self._route(answer), methods=["POST"]) for name, answer in calls.items()
        ]
        app = Starlette(routes=routes)
        app.router.redirect_slashes = False  # a redirect repeats the secret, to whatever host the request named
        return app

    def _route(
        self, answer: Callable[[str, dict[str, Any]], Awaitable[JSONResponse]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def route(request: Request) -> Response:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    body = await _body(request)
                    token = request.path_params["token"]
                    if (refusal := await self._refusal(token, request)) is not None:
                        return refusal
                    async with self._few:
                        return await answer(token, _object_in(body))
            except BadCallError as error:
                return JSONResponse({"error": str(error)}, 400)
            except ClientDisconnect:
                return Response(status_code=400)
            except (TimeoutError, FleetAgentError):  # whatever it is, it is not the worker's doing
                return JSONResponse({"error": "try again later"}, 503)

        return route

    async def _refusal(self, token: str, request: Request) -> Response | None:
        """Why this caller is not heard, or None. Whoever has a machine's token is never refused for other callers."""
        known = await self._memory.knows(token)
        if known:
            wait = self._machines.wait_seconds(token)
            return _too_often(wait) if wait else None
        wait = self._strangers.wait_seconds(peer_of(request.scope.get("client")))
        if wait or known is None:
            return _too_often(wait or 1.0)
        return JSONResponse({"error": UNKNOWN}, 404)

    async def _register(self, token: str, body: dict[str, Any]) -> JSONResponse:
        registered = await self._memory.register(token, neutral(_text(body, "label"), 100), self._now())
        if registered is None:
            return JSONResponse({"error": UNKNOWN}, 404)
        if registered.changed:
            self._triggers.nudge(registered.agent)
        return JSONResponse({"uuid": registered.uuid, "runner_id": registered.runner_id})

    async def _params_done(self, token: str, body: dict[str, Any]) -> JSONResponse:
        return self._taken(await self._memory.params_done(token, _uuid(body), self._now()))

    async def _bench_done(self, token: str, body: dict[str, Any]) -> JSONResponse:
        rate = body.get("rate")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= HIGHEST_RATE:
            raise BadCallError("rate must be a number of proofs per hour")
        answer = await self._memory.bench_done(token, _uuid(body), float(rate), self._now())
        return self._taken(answer, with_passed=True)

    async def _running(self, token: str, body: dict[str, Any]) -> JSONResponse:
        return self._taken(await self._memory.running(token, _uuid(body)))

    def _taken(self, answer: WorkerAnswer | None, *, with_passed: bool = False) -> JSONResponse:
        if answer is None:
            return JSONResponse({"error": UNKNOWN}, 404)
        if answer.changed:
            self._triggers.nudge(answer.agent)
        said: dict[str, Any] = {"ok": answer.ok}
        if with_passed:
            said["passed"] = answer.passed
        if answer.counted_rate is not None:
            note = "more is not plausible for these GPUs"
            said |= {"counted_rate": answer.counted_rate, "note": note}
        return JSONResponse(said)


async def _body(request: Request) -> bytes:
    """A small body, whole."""
    raw, size = b"", 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= LARGEST_BODY:
            raw += chunk
        elif size > LARGEST_BODY_HEARD:
            break
    if size > LARGEST_BODY:
        raise BadCallError(f"the body is larger than {LARGEST_BODY} bytes")
    return raw


def _object_in(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw or b"{}", parse_constant=lambda _: math.nan)
    except (ValueError, RecursionError):
        raise BadCallError("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadCallError("the body must be a JSON object")
    return body


def _too_often(wait_seconds: float) -> Response:
    return JSONResponse({"error": "too often"}, 429, headers={"Retry-After": str(math.ceil(wait_seconds))})


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > 256:
        raise BadCallError(f"{name} is missing")
    return value


def _uuid(body: dict[str, Any]) -> str:
    """The pair's uuid in the one way it is written; what is none is unknown, not an error of the database."""
    given = _text(body, "uuid")
    try:
        return str(UUID(given))
    except ValueError:
        return NOBODY
