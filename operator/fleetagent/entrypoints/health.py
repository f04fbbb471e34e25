"""/healthz and /readyz for probes: they answer soon, and name what is silent or missing."""

import logging
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from fleetagent.entrypoints.signs import Signs
from fleetagent.errors import TryLater

Check = Callable[[], Awaitable[None]]

log = logging.getLogger(__name__)


def health_app(signs: Signs, memory_answers: Check) -> Starlette:
    """Alive while all that must speak is heard; ready when the watches are open and the database is as we know it.

    A database, model or market that is away never makes a process not alive: a new one would not have it either.
    """
    said: dict[str, list[str]] = {}

    def answer(what: str, wrong: list[str]) -> PlainTextResponse:
        if wrong and not said.get(what):
            log.warning("%s: %s", what, "; ".join(wrong))  # a kubelet tells the status alone
        elif said.get(what) and not wrong:
            log.info("%s again", what.replace("not ", ""))
        said[what] = wrong
        text = "\n".join(wrong) or what.replace("not ", "")
        return PlainTextResponse(f"{text}\n", 503 if wrong else 200)

    async def healthz(_: Request) -> PlainTextResponse:
        return answer("not alive", signs.silence())

    async def readyz(_: Request) -> PlainTextResponse:
        missing = signs.missing()
        try:
            await memory_answers()
        except TryLater as error:
            missing.append(str(error))
        return answer("not ready", missing)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz)])
