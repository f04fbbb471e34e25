"""…/actions: what waits for a person, and the ledger: everything the agent did or wanted to do to the fleet."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.domain.records import ActionState
from fleetagent.entrypoints.web.page.asked import number, word
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import standing
from fleetagent.entrypoints.web.visitor import visitor
from fleetagent.ports.reading import Slice

STATES = tuple(state.value for state in ActionState)


def routes(parts: Parts) -> tuple[Route, ...]:
    """All actions, or those of a state or a run."""

    async def page(request: Request) -> Response:
        state, run, after = word(request, "state", STATES), number(request, "run"), request.query_params.get("after")
        stands = await standing(parts, request)
        found = await parts.reading.actions(
            stands.key,
            Slice(limit=50, after=after),
            run_id=run,
            states=() if state is None else (state,),
        )
        return html(
            "actions.html",
            standing=stands,
            visitor=visitor(request),
            tab="actions",
            actions=found,
            states=STATES,
            state=state,
            run="" if run is None else str(run),
            after=after,
        )

    return (Route("/agents/{namespace}/{name}/actions", page),)
