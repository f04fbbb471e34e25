"""The fleet: machines with their way through the phases, and what is remembered of their hosts."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.domain.fleet import ENDED, Phase
from fleetagent.domain.resource import FleetAgent
from fleetagent.domain.views import HostView, MachineView
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import standing
from fleetagent.entrypoints.web.page.timeline import WIDTH, timeline
from fleetagent.ports.reading import Slice

ROWS: Final = 50
PHASES: Final[Mapping[str, str]] = {
    Phase.REQUESTED: "asked for; the market has not shown it yet",
    Phase.LOADING: "the market provides it and pulls the image",
    Phase.REGISTERED: "its worker has called, and fetches parameters",
    Phase.BENCHMARKING: "its worker measures its rate",
    Phase.PROVING: "it works",
    Phase.STOPPING: "it is to be destroyed, and bills until it is gone",
}


def routes(parts: Parts) -> list[Route]:
    """Where the fleet is read."""

    async def fleet(request: Request) -> Response:
        stands = await standing(parts, request)
        with_ended = bool(request.query_params.get("ended"))
        after = request.query_params.get("after") or None
        page = await parts.reading.machines(stands.key, Slice(limit=ROWS, after=after), ended=with_ended)
        hosts = await parts.reading.hosts(stands.key)
        here = f"{stands.path}/fleet"
        return html(
            "fleet.html",
            standing=stands,
            tab="fleet",
            page=page,
            machines=[
                (machine, timeline(machine, stands.now), limit_of(stands.agent, machine)) for machine in page.items
            ],
            hosts=sorted(hosts, key=lambda host: not excluded(host, stands.now)),
            is_excluded=lambda host: excluded(host, stands.now),
            with_ended=with_ended,
            ended_phases=ENDED,
            newest=after is None,
            here=here,
            address=f"{here}?ended=1&" if with_ended else f"{here}?",
            phases=PHASES,
            width=WIDTH,
        )

    return [Route("/agents/{namespace}/{name}/fleet", fleet)]


def excluded(host: HostView, now: datetime) -> bool:
    """Whether nothing is rented from it just now, because it has failed."""
    return host.excluded_until is not None and host.excluded_until > now


def limit_of(agent: FleetAgent | None, machine: MachineView) -> timedelta | None:
    """How long it may stay in the phase that it is in, before code ends it."""
    if agent is None:
        return None
    limits = agent.spec.fleet.timeouts
    return {
        Phase.LOADING.value: limits.loading,
        Phase.REGISTERED.value: limits.registered,
        Phase.BENCHMARKING.value: limits.benchmarking,
    }.get(machine.phase)
