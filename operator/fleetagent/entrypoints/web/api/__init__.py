"""The audit API: everything that stands, as JSON. `table` lists it; `openapi` describes it."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.agent.clock import Now
from fleetagent.entrypoints.web.api.endpoints import JSON
from fleetagent.entrypoints.web.api.openapi import document_json
from fleetagent.entrypoints.web.api.table import ENDPOINTS
from fleetagent.ports.reading import Reading


def api_routes(reading: Reading, now: Now) -> list[Route]:
    """Relative to /api/v1, behind the guard."""

    async def openapi(_: Request) -> Response:
        return Response(document_json(), media_type=JSON)

    return [Route("/openapi.json", openapi, name="openapi"), *(each.route(reading, now) for each in ENDPOINTS)]
