"""A transport that reads no more of an answer than anybody could use: a server that talks for ever fills no memory."""

from collections.abc import AsyncIterator

import httpx2

LARGEST_ANSWER_BYTES = 32_000_000
LARGEST_COMPRESSED_BYTES = LARGEST_ANSWER_BYTES // 100
"""Unpacked it may be a thousand times as large; none is asked for, and what some proxies pack all the same is small."""


class AnswerTooLarge(httpx2.ReadError):
    """The server did not stop talking."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Ends an answer with `AnswerTooLarge` where it passes the limit."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and watch the answer's body as it is read."""
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        packed = "content-encoding" in response.headers
        most = LARGEST_COMPRESSED_BYTES if packed else LARGEST_ANSWER_BYTES
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, request, most)
        return response


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, request: httpx2.Request, most: int) -> None:
        self._stream, self._request, self._most = stream, request, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._most:
                raise AnswerTooLarge(f"the answer has more than {self._most} bytes", request=self._request)
            yield chunk

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._stream.aclose()
