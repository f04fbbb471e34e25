"""Sessions of the conversation, and wakes: the runs that the agent asked for."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import standing
from fleetagent.ports.reading import Slice

ROWS: Final = 50
MOST_PENDING: Final = 100
"""As many as spec.schedule.wakes.limit may allow."""


def routes(parts: Parts) -> list[Route]:
    """Where sessions and wakes are read."""

    async def sessions(request: Request) -> Response:
        stands = await standing(parts, request)
        after = request.query_params.get("after") or None
        page = await parts.reading.sessions(stands.key, Slice(limit=ROWS, after=after))
        here = f"{stands.path}/sessions"
        return html("sessions.html", standing=stands, tab="conversation", page=page, here=here, newest=after is None)

    async def wakes(request: Request) -> Response:
        stands = await standing(parts, request)
        with_past, after = bool(request.query_params.get("past")), request.query_params.get("after") or None
        pending = await parts.reading.wakes(stands.key, Slice(limit=MOST_PENDING), state="pending")
        past = await parts.reading.wakes(stands.key, Slice(limit=ROWS, after=after)) if with_past or after else None
        here = f"{stands.path}/wakes"
        return html(
            "wakes.html", standing=stands, tab="runs", pending=pending, past=past, here=here, newest=after is None
        )

    return [
        Route("/agents/{namespace}/{name}/sessions", sessions),
        Route("/agents/{namespace}/{name}/wakes", wakes),
    ]
