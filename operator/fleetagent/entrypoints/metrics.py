"""/metrics, for Prometheus."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


def metrics_app(text: Callable[[], bytes]) -> Starlette:
    """Serves what `text` says at the moment of the scrape."""

    async def metrics(_: Request) -> Response:
        return Response(text(), media_type=TEXT_FORMAT)

    return Starlette(routes=[Route("/metrics", metrics)])
