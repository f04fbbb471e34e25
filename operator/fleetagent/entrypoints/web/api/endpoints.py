"""What an endpoint is: one line of the table that routes and OpenAPI document are both made of."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.agent.clock import Now
from fleetagent.domain.records import HIGHEST_ID, AgentKey
from fleetagent.domain.resource.wire import Wire
from fleetagent.entrypoints.web.api.queries import Query, read_query
from fleetagent.entrypoints.web.names import must_be_a_name
from fleetagent.entrypoints.web.visitor import Visitor, visitor
from fleetagent.ports.reading import Reading

JSON = "application/json"
OF_AN_AGENT = "/namespaces/{namespace}/agents/{name}"

Asked = TypeVar("Asked", bound=Query)


@dataclass(frozen=True, slots=True)
class Call(Generic[Asked]):
    """One request, once it is known who asks and that they may."""

    reading: Reading
    who: Visitor
    now: Now
    query: Asked
    key: AgentKey
    """Of the agent; empty where the address names none."""
    id: int
    """Of the run or session; 0 where the address names none."""


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[Asked]):
    """One address that is read. `answer` None: the endpoint streams what it gives, as `media_type`."""

    path: str
    name: str
    summary: str
    query: type[Asked]
    answer: Any
    read: Callable[[Call[Asked]], Awaitable[Wire | Response]]
    media_type: str = JSON

    def route(self, reading: Reading, now: Now) -> Route:
        """Who may not read the namespace learns nothing, not even whether there is such an agent."""

        async def get(request: Request) -> Response:
            who, path = visitor(request), request.path_params
            key = AgentKey(path.get("namespace", ""), path.get("name", ""))
            if key.namespace or "{namespace}" in self.path:
                await who.must_read(key.namespace)
                must_be_a_name(key.name)
            query = read_query(self.query, request.query_params)
            answer = await self.read(Call(reading, who, now, query, key, _id(path.get("id", "0"))))
            if isinstance(answer, Response):
                return answer
            return Response(answer.model_dump_json(by_alias=True, exclude_none=True), media_type=JSON)

        route = Route(self.path, get, methods=["GET"], name=self.name)
        route.methods = {"GET"}  # for a HEAD, a whole session would be read for nobody
        return route


def not_found(what: str) -> HTTPException:
    """There is no such thing; that the caller may read the namespace is known by then."""
    return HTTPException(404, f"there is no {what}")


def _id(text: str) -> int:
    """A number of the address: the runs and sessions that there are have one that the database can hold."""
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(HIGHEST_ID)):
        raise not_found("such number: it is a whole one, as lists give it")
    return int(text)
