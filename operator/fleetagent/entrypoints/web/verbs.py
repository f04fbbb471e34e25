"""Steering: what a visitor says becomes a patch of the FleetAgent, sent with the visitor's own token."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetagent.agent.clock import Now
from fleetagent.domain.patches import VERBS, Patch, Stored, read_verb
from fleetagent.domain.records import AgentKey
from fleetagent.domain.said import ONE_WORD, OneWord, not_served_yet, value_of
from fleetagent.entrypoints.web.visitor import Visitor, visitor
from fleetagent.errors import BadRequest, Conflict

log = logging.getLogger(__name__)

MOST_TRIES = 20
HEARD_WITHIN_SECONDS = 5.0
ASKS_AGAIN_SECONDS = 0.2

Heard = Callable[[AgentKey, OneWord, str], Awaitable[bool]]
"""See `ports.Reading.heard`."""
Sleep = Callable[[float], Awaitable[None]]


class Steering:
    """Says a verb to an agent. Nobody's word gets lost by another's: it is read anew when somebody else was faster."""

    def __init__(self, now: Now, heard: Heard, sleep: Sleep = asyncio.sleep) -> None:
        self._now = now
        self._heard = heard
        self._sleep = sleep

    async def __call__(self, who: Visitor, key: AgentKey, verb: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """What was written.

        `BadRequest` for what cannot be said, `NotAllowed` for who may not, `Conflict` when others are faster each time
        or the word before this one stays unheard.
        """
        wanted = read_verb(verb, said)
        for tries_left in reversed(range(MOST_TRIES)):
            stored = await self._with_room(who, key, verb)
            change = wanted.patch(stored, self._now())
            try:
                await who.callers.patch(who.token, key, change)
            except Conflict:
                if not tries_left:
                    raise
            else:
                log.info("%s: %s, said by %s", key, verb, who.name or "somebody")
                return _written(change)
        raise AssertionError("the last try returns or raises")

    async def _with_room(self, who: Visitor, key: AgentKey, verb: str) -> Stored:
        """The FleetAgent, once the word that stands there was heard: the operator needs a moment for that."""
        for _ in range(int(HEARD_WITHIN_SECONDS / ASKS_AGAIN_SECONDS)):
            stored = await who.resource(key)
            if stored is None:
                raise HTTPException(404, f"there is no FleetAgent {key}: check namespace and name")
            name = ONE_WORD.get(verb)
            before = None if name is None else not_served_yet(name, stored)
            if name is None or before is None or await self._heard(key, name, value_of(name, before)):
                return stored
            await self._sleep(ASKS_AGAIN_SECONDS)
        raise Conflict(f"the operator has not heard the {verb} before this one yet: say it again in a few seconds")


def _written(change: Patch) -> Mapping[str, Any]:
    """Without what only guards the patch."""
    return {part: {k: v for k, v in said.items() if k != "resourceVersion"} for part, said in change.items()}


def verb_routes(steer: Steering) -> list[Route]:
    """A POST for each verb, relative to /api/v1."""

    async def post(request: Request) -> Response:
        key = AgentKey(request.path_params["namespace"], request.path_params["name"])
        verb = request.scope["path"].rpartition("/")[2]
        written = await steer(visitor(request), key, verb, await _json(request))
        return JSONResponse({"verb": verb, "written": written}, 202)

    return [Route(f"/namespaces/{{namespace}}/agents/{{name}}/{verb}", post, methods=["POST"]) for verb in VERBS]


async def _json(request: Request) -> Mapping[str, Any]:
    try:
        said = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body must be a JSON object, such as {}") from error
    if not isinstance(said, dict):
        raise BadRequest("the body must be a JSON object, such as {}")
    return said
