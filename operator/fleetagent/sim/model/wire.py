"""Between answers and HTTP: bodies out, whole or spoilt, and waits that end when nobody waits any more."""

import asyncio
import json
import math
from collections.abc import Awaitable
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fleetagent.sim.model.replies import Answer, CutShort, Dropped, Trickle


class NobodyWaitsError(Exception):
    """The client went away, or the server is closing, before there was an answer."""


def respond(answer: Answer) -> Response:
    """The answer as bytes; JSON in ASCII, so that a lone surrogate somebody sent can be shown."""
    headers = dict(answer.headers)
    if isinstance(answer.body, str | bytes):
        return Response(
            answer.body, answer.status, headers, media_type=None if "content-type" in headers else "text/plain"
        )
    return Response(json.dumps(answer.body), answer.status, headers, media_type="application/json")


def respond_badly(answer: Dropped | CutShort | Trickle, closing: asyncio.Event) -> Response:
    """What no server means to do."""
    if isinstance(answer, Trickle):
        return _Slow(answer, closing)
    return _Closed(respond(answer.answer) if isinstance(answer, CutShort) else None)


async def wait_for(http: Request, closing: asyncio.Event, what: Awaitable[object]) -> None:
    """Wait for `what`, unless the client goes away first. The request's body must have been read."""
    wanted = asyncio.ensure_future(what)
    ends = [asyncio.ensure_future(closing.wait()), asyncio.ensure_future(_gone(http.receive))]
    try:
        await asyncio.wait([wanted, *ends], return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise NobodyWaitsError
    finally:
        for task in (wanted, *ends):
            task.cancel()


class _Closed(Response):
    """The first half of an answer, or nothing, then the end of the connection."""

    def __init__(self, whole: Response | None) -> None:
        super().__init__()
        self._whole = whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        if self._whole is not None:
            await send(_start(self._whole))
            await send(_part(bytes(self._whole.body)[: len(self._whole.body) // 2]))
        # uvicorn gives nobody its connection, but the receiver that it passes belongs to whoever has it.
        cast("Any", receive).__self__.transport.close()
        await _gone(receive)


class _Slow(Response):
    """The headers, then byte by byte."""

    def __init__(self, trickle: Trickle, closing: asyncio.Event) -> None:
        super().__init__()
        self._whole, self._pause, self._closing = respond(trickle.answer), trickle.pause_seconds, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await send(_start(self._whole))
        ends = [asyncio.ensure_future(self._closing.wait()), asyncio.ensure_future(_gone(receive))]
        try:
            for byte in bytes(self._whole.body):
                pause = None if math.isinf(self._pause) else self._pause
                done, _ = await asyncio.wait(ends, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    return
                await send(_part(bytes([byte])))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            for task in ends:
                task.cancel()


def _start(whole: Response) -> dict[str, Any]:
    return {"type": "http.response.start", "status": whole.status_code, "headers": whole.raw_headers}


def _part(body: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
