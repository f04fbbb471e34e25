"""Between answers and HTTP: bodies out, and waits that end when nobody waits any more."""

import asyncio
import json
from collections.abc import Awaitable

from starlette.requests import Request
from starlette.responses import Response

from fleetagent.sim.model.replies import Answer


class NobodyWaitsError(Exception):
    """The client went away, or the server is closing, before there was an answer."""


def respond(answer: Answer) -> Response:
    """The answer as bytes; JSON in ASCII, so that a lone surrogate somebody sent can be shown."""
    headers = dict(answer.headers)
    if isinstance(answer.body, str):
        return Response(
            answer.body, answer.status, headers, media_type=None if "content-type" in headers else "text/plain"
        )
    return Response(json.dumps(answer.body), answer.status, headers, media_type="application/json")


async def wait_for(http: Request, closing: asyncio.Event, what: Awaitable[object]) -> None:
    """Wait for `what`, unless the client goes away first. The request's body must have been read."""
    wanted = asyncio.ensure_future(what)
    ends = [asyncio.ensure_future(closing.wait()), asyncio.ensure_future(_gone(http))]
    try:
        await asyncio.wait([wanted, *ends], return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise NobodyWaitsError
    finally:
        for task in (wanted, *ends):
            task.cancel()


async def _gone(http: Request) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
