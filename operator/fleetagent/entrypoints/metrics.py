"""/metrics, for Prometheus."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


def metrics_route(parts: Callable[[], Iterable[bytes]]) -> Route:
    """Serves what `parts` say at the moment of the scrape; between two of them others run."""

    async def one_by_one() -> AsyncIterator[bytes]:
        for part in parts():
            yield part
            await asyncio.sleep(0)

    async def metrics(_: Request) -> StreamingResponse:
        return StreamingResponse(one_by_one(), media_type=TEXT_FORMAT)

    return Route("/metrics", metrics)
