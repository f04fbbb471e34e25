"""/healthz and /readyz for probes."""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from fleetagent.errors import TryLater

Check = Callable[[], Awaitable[None]]


def health_app(watching: Callable[[], bool], database_answers: Check) -> Starlette:
    """Alive while the loop turns; ready when the watches have begun and the database answers."""

    async def healthz(_: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> PlainTextResponse:
        if not watching():
            return PlainTextResponse("not watching yet\n", 503)
        try:
            await database_answers()
        except TryLater as error:
            return PlainTextResponse(f"{error}\n", 503)
        return PlainTextResponse("ready\n")

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz)])
