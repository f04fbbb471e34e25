"""One small answer over HTTP, or the reason why there is none: what all demand sources with a URL have in common."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx

from fleetagent.errors import TryLater

MAX_ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source said."""

    status: int
    content: bytes
    age: str | None
    """The header of that name: for how many seconds some cache has kept this answer."""

    @property
    def is_ok(self) -> bool:
        """Only 200 is: a redirect could lead inside, and an empty or partial answer is none."""
        return self.status == HTTPStatus.OK

    def json(self) -> Any:
        """The JSON in it, or `TryLater`."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError) as error:
            raise TryLater("the demand source answered with something else than JSON") from error


async def ask(
    http: httpx.AsyncClient, url: str, *, timeout_seconds: float, parameters: Mapping[str, str] | None = None
) -> Answer:
    """GET it once, within the time-out as a whole. `TryLater` never repeats the URL: it may hold a token."""
    try:
        request = http.build_request(
            "GET",
            url,
            params=parameters or None,
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "Cache-Control": "no-cache"},
            timeout=timeout_seconds,
        )
        request.headers.pop("Cookie", None)  # the client is shared with others
        async with asyncio.timeout(timeout_seconds):
            response = await http.send(request, stream=True, follow_redirects=False)
            try:
                return Answer(response.status_code, await _content(response), response.headers.get("Age"))
            finally:
                await response.aclose()
    except TimeoutError as error:
        raise TryLater(f"the demand source does not answer within {timeout_seconds:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise TryLater(f"the demand source does not answer: {type(error).__name__}") from error


async def _content(response: httpx.Response) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":  # packed twice, 64 KiB fill any memory
        raise TryLater("the demand source packs its answer, which nobody asked for")
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise TryLater(f"the demand source answered with more than {MAX_ANSWER_BYTES} bytes")
    return bytes(content)
