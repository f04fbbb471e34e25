"""…/alerts: what the agent and its guards raised, open ones with the form to acknowledge them."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.entrypoints.web.page.asked import word
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import standing
from fleetagent.entrypoints.web.visitor import visitor
from fleetagent.ports.reading import Slice

STATES = ("open", "acknowledged", "resolved")


def routes(parts: Parts) -> tuple[Route, ...]:
    """All alerts, or those of one state."""

    async def page(request: Request) -> Response:
        state, after = word(request, "state", STATES), request.query_params.get("after")
        stands = await standing(parts, request)
        found = await parts.reading.alerts(stands.key, Slice(limit=50, after=after), state=state)
        return html(
            "alerts.html",
            standing=stands,
            visitor=visitor(request),
            tab="alerts",
            alerts=found,
            states=STATES,
            state=state,
            after=after,
        )

    return (Route("/agents/{namespace}/{name}/alerts", page),)
