"""Who is asking for a page of which agent: what the head of each of its pages shows."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import FleetAgent
from fleetagent.domain.views import AgentRow
from fleetagent.entrypoints.web.names import must_be_a_name
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.state import GONE, State, state_of
from fleetagent.entrypoints.web.visitor import Visitor, visitor
from fleetagent.errors import BadResource, TryLater

Read = TypeVar("Read")

SHARED_FOR = timedelta(seconds=1)
UNREADABLE = State("unreadable", "bad", "the resource cannot be read")
NOT_LISTED = State(
    "may not be listed", "plain", "you may get each FleetAgent here, and not list them: open it to see more"
)


@dataclass(frozen=True, slots=True)
class Standing:
    """One agent as its visitor finds it. `agent` is None when the resource is gone or cannot be read."""

    visitor: Visitor
    key: AgentKey
    now: datetime
    agent: FleetAgent | None
    state: State
    row: AgentRow | None
    """What the database knows; None when it cannot be asked, or knows nothing of it yet."""
    steers: bool
    trouble: str | None = None
    """What could not be read, in a sentence for people."""

    @property
    def path(self) -> str:
        """Where its pages are."""
        return path_of(self.key)

    @property
    def mode(self) -> str | None:
        """What it may do to the fleet."""
        return None if self.agent is None else self.agent.spec.mode.value

    @property
    def badges(self) -> Mapping[str, int]:
        """Numbers beside the tabs: what wants to be seen."""
        status = None if self.agent is None else self.agent.status
        alerts = status.open_alerts if status is not None else self.row.open_alerts if self.row else 0
        waiting = len(status.waiting_actions) if status is not None else 0
        return {"alerts": alerts or 0, "actions": waiting}


def path_of(key: AgentKey) -> str:
    """Where an agent's pages are."""
    return f"/agents/{key.namespace}/{key.name}"


def key_of(request: Request) -> AgentKey:
    """The agent that the path names; 404 for what can be no name."""
    must_be_a_name(request.path_params["name"])
    return AgentKey(request.path_params["namespace"], request.path_params["name"])


async def standing(parts: Parts, request: Request) -> Standing:
    """The agent, if the visitor may read it. 404 when neither the API server nor the database knows it."""
    who, key, now = visitor(request), key_of(request), parts.now()
    await who.must_read(key.namespace)
    stored, row, trouble = await shared(parts, request, "standing", key, lambda: _look(parts, who, key))
    if stored is None and row is None and trouble is None:
        raise HTTPException(404, f"there is no FleetAgent {key}: see the list of agents")
    agent, state = None, GONE
    if stored is not None:
        try:
            agent = FleetAgent.stored(stored)
            state = state_of(agent, now)
        except BadResource as error:
            state, trouble = UNREADABLE, str(error)
    steers = stored is not None and await who.may_steer(key.namespace)
    return Standing(who, key, now, agent, state, row, steers, trouble)


async def shared(parts: Parts, request: Request, what: str, key: AgentKey, read: Callable[[], Awaitable[Read]]) -> Read:
    """What `read` says. Pages that are told of a change come by htmx, all at once: they share it."""
    if "hx-request" not in request.headers:
        return await read()
    return await parts.live.recent.of((what, key), parts.now(), SHARED_FOR, read)


async def _look(
    parts: Parts, who: Visitor, key: AgentKey
) -> tuple[Mapping[str, Any] | None, AgentRow | None, str | None]:
    """The resource, what the database knows of it, and why that is not known."""
    stored, row = await asyncio.gather(who.resource(key), _known(parts, key))
    return (stored, None, row) if isinstance(row, str) else (stored, row, None)


async def _known(parts: Parts, key: AgentKey) -> AgentRow | str | None:
    try:
        return await parts.reading.agent(key)
    except TryLater as error:
        return f"The database cannot be read, so what was is missing here: {error}"
