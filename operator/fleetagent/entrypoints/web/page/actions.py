"""…/actions: what waits for a person, and the ledger: everything the agent did or wanted to do to the fleet."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.domain.records import ActionState
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import standing
from fleetagent.entrypoints.web.visitor import visitor
from fleetagent.errors import BadRequest
from fleetagent.ports.reading import Slice

STATES = tuple(state.value for state in ActionState)


def routes(parts: Parts) -> tuple[Route, ...]:
    """All actions, or those of a state or a run."""

    async def page(request: Request) -> Response:
        query = request.query_params
        state, run, after = query.get("state") or None, query.get("run") or None, query.get("after")
        if state not in (None, *STATES):
            raise BadRequest(f"state: must be one of {', '.join(STATES)}")
        if run is not None and not (run.isascii() and run.isdigit() and len(run) < 19):
            raise BadRequest("run: must be a run's number, such as 412")
        stands = await standing(parts, request)
        found = await parts.reading.actions(
            stands.key,
            Slice(limit=50, after=after),
            run_id=None if run is None else int(run),
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
            run=run,
            after=after,
        )

    return (Route("/agents/{namespace}/{name}/actions", page),)
