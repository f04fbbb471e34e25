"""A transport that reads no more of an answer than anybody could use: a server that talks for ever fills no memory."""

from collections.abc import AsyncIterator

import httpx2

LARGEST_ANSWER_BYTES = 4_000_000
"""As JSON objects in memory it may be thirty times as large. The longest answers are a tenth of it."""
LARGEST_COMPRESSED_BYTES = 100_000
"""Unpacked it may be a thousand times as large; none is asked for, and what some proxies pack all the same is small."""
UNPACKED = frozenset({"", "identity"})
PACKED_ONCE = frozenset({"gzip", "x-gzip", "deflate"})
"""Packed twice, or with what packs better, a few bytes would fill the memory."""


class AnswerTooLarge(httpx2.ReadError):
    """The server did not stop talking."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Ends an answer with `AnswerTooLarge` where it passes the limit."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and watch the answer's body as it is read."""
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in UNPACKED | PACKED_ONCE:
            await response.aclose()
            raise AnswerTooLarge("the answer is packed in a way that nobody asked for", request=request)
        most = LARGEST_ANSWER_BYTES if coding in UNPACKED else LARGEST_COMPRESSED_BYTES
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
