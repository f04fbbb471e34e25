"""The reading half of the API: who may, what may be asked, and what is answered."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from fleetagent.domain.patches import VERBS
from fleetagent.domain.records import AgentKey
from fleetagent.domain.views import AgentRow, MessageView, Page, RunRow, RunView, SessionView, SpendView
from fleetagent.entrypoints.web.api import api_routes
from fleetagent.entrypoints.web.api.openapi import document
from fleetagent.entrypoints.web.api.table import ENDPOINTS
from fleetagent.entrypoints.web.app import Pages, visitors, web_app
from fleetagent.entrypoints.web.verbs import Steering
from fleetagent.errors import BadCursor, NotAllowed, TryLater
from fleetagent.ports.reading import Reading, Slice
from support.door import ADMIN, BEGAN, LOOPBACK, OURS_ALONE, VIEWER, MadeUpCallers

KEY = AgentKey("ours", "porep")
HERE = "/api/v1/namespaces/ours/agents/porep"
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)

RUN = RunRow(
    run_id=7,
    session_id=4,
    state="finished",
    triggers=("Schedule",),
    started_at=NOON,
    outcome="Held",
    quiet=True,
    model_calls=1,
    tokens_in=100,
    tokens_out=10,
    tokens_cached=0,
    tokens_estimated=False,
    usd=Decimal("0E-9"),
    actions=0,
    refusals=0,
)
SESSION = SessionView(
    id=4, epoch=2, started_at=NOON, messages=3, messages_in_prompt=3, compactions=0, masked_before_run=0
)


def a_message(seq: int, role: str, content: str, **more: Any) -> MessageView:
    kind = {"user": "observation", "assistant": "reply", "tool": "tool_result"}[role]
    return MessageView(
        seq=seq, session_id=4, run_id=7, at=NOON, kind=kind, role=role, content=content, estimated_tokens=9, **more
    )


def an_agent(key: AgentKey = KEY) -> AgentRow:
    return AgentRow(
        namespace=key.namespace,
        name=key.name,
        uid="uid-1",
        last_run_id=7,
        open_alerts=1,
        waiting_actions=0,
        pending_wakes=0,
        last_run=RUN,
    )


@dataclass
class OneRun:
    """A store with one agent, one run and one session; it notes what it was asked."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)
    messages: tuple[MessageView, ...] = ()
    away: bool = False
    closed: bool = False

    async def namespaces(self) -> tuple[str, ...]:
        return ("ours", "theirs")

    async def agents(self, namespaces: tuple[str, ...], *, deleted: bool = False) -> tuple[AgentRow, ...]:
        self.asked.append(("agents", namespaces, deleted))
        return tuple(an_agent(AgentKey(namespace, "porep")) for namespace in namespaces)

    async def agent(self, key: AgentKey) -> AgentRow | None:
        return an_agent() if key == KEY else None

    async def runs(
        self, key: AgentKey, which: Slice, *, outcome: str | None = None, trigger: str | None = None
    ) -> Page[RunRow]:
        self.asked.append(("runs", key, which, outcome, trigger))
        if self.away:
            raise TryLater("database: no answer in time")
        if which.after == "bad":
            raise BadCursor("`after` is no cursor of this list")
        return Page(items=(RUN,), next="more")

    async def run(self, key: AgentKey, run_id: int) -> RunView | None:
        if (key, run_id) != (KEY, 7):
            return None
        return RunView(run=RUN, verdict={"why": None}, actions=(), messages=(), compactions=())

    async def session(self, key: AgentKey, session_id: int | None = None) -> SessionView | None:
        return SESSION if (key, session_id) == (KEY, 4) else None

    async def export(self, key: AgentKey, session_id: int) -> AsyncIterator[MessageView]:
        self.asked.append(("export", key, session_id))
        try:
            for message in self.messages:
                await asyncio.sleep(0)
                yield message
        finally:
            self.closed = True

    async def actions(self, key: AgentKey, which: Slice, **filters: Any) -> Page[Any]:
        self.asked.append(("actions", key, which, filters))
        return Page(items=())

    async def heard(self, *_: object) -> bool:
        return True

    async def spend(self, key: AgentKey, days: int) -> tuple[SpendView, ...]:
        self.asked.append(("spend", key, days))
        return (SpendView(day=NOON.date(), fleet_usd=Decimal("51.2"), model_usd=Decimal("1E-9"), model_tokens=3),)

    async def samples(self, key: AgentKey, since: datetime, until: datetime, *, most: int) -> tuple[Any, ...]:
        self.asked.append(("samples", key, since, until, most))
        return ()


@dataclass
class Server:
    """The whole app around that store."""

    reading: OneRun = field(default_factory=OneRun)
    callers: MadeUpCallers = field(default_factory=MadeUpCallers)

    def __post_init__(self) -> None:
        self.routes = api_routes(cast("Reading", self.reading), lambda: BEGAN)
        self.app = web_app(
            visitors(self.callers, url=None, now=lambda: BEGAN, clock=lambda: 0.0),
            metrics=list,
            api=self.routes,
            pages=Pages([], lambda *_, **__: PlainTextResponse(""), lambda *_: PlainTextResponse("")),
            steer=Steering(lambda: BEGAN, self.reading.heard),
        )

    async def get(self, path: str, token: str | None = ADMIN) -> httpx.Response:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=LOOPBACK, headers=headers) as client:
            return await client.get(path)


@pytest.fixture
def server() -> Server:
    return Server()


async def test_a_list_is_answered_in_camel_case_with_what_asks_for_its_next_page(server: Server) -> None:
    answer = await server.get(
        f"{HERE}/runs?outcome=Held&trigger=Schedule&limit=3&after=abc&since=2026-11-29T13:00:00%2B01:00"
    )

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    run = {
        "runID": 7,
        "sessionID": 4,
        "state": "finished",
        "triggers": ["Schedule"],
        "startedAt": "2026-11-29T12:00:00Z",
        "outcome": "Held",
        "quiet": True,
        "modelCalls": 1,
        "tokensIn": 100,
        "tokensOut": 10,
        "tokensCached": 0,
        "tokensEstimated": False,
        "usd": "0.00",
        "actions": 0,
        "refusals": 0,
    }
    assert answer.json() == {"items": [run], "next": "more"}
    assert server.reading.asked == [("runs", KEY, Slice(3, "abc", since=NOON), "Held", "Schedule")]


async def test_an_agent_is_told_with_its_resource_as_the_api_server_has_it(server: Server) -> None:
    server.callers.agents[KEY] = {"metadata": {"uid": "uid-1"}, "spec": {"mode": "Act"}, "status": {"openAlerts": 1}}

    told = (await server.get(HERE)).json()

    assert (told["uid"], told["lastRunID"], told["lastRun"]["runID"]) == ("uid-1", 7, 7)
    assert (told["spec"], told["status"]) == ({"mode": "Act"}, {"openAlerts": 1})


async def test_an_agent_is_told_without_resource_when_that_is_gone_and_without_past_when_it_is_new(
    server: Server,
) -> None:
    assert "spec" not in (await server.get(HERE)).json()

    new = AgentKey("ours", "new")
    server.callers.agents[new] = {"metadata": {"uid": "uid-9"}, "spec": {"mode": "Act"}}
    told = (await server.get("/api/v1/namespaces/ours/agents/new")).json()
    assert (told["uid"], told["lastRunID"], told["spec"]) == ("uid-9", 0, {"mode": "Act"})

    assert (await server.get("/api/v1/namespaces/ours/agents/none")).status_code == 404


async def test_the_list_of_agents_holds_what_the_caller_may_read(server: Server) -> None:
    async def seen(query: str, token: str) -> list[str]:
        return [agent["namespace"] for agent in (await server.get(f"/api/v1/agents{query}", token)).json()["items"]]

    assert await seen("", VIEWER) == ["ours", "theirs"]
    assert await seen("", OURS_ALONE) == ["ours"]
    assert await seen("?namespace=theirs", VIEWER) == ["theirs"]
    assert (await server.get("/api/v1/agents?namespace=theirs", OURS_ALONE)).status_code == 403
    assert (await server.get("/api/v1/agents?deleted=true")).json()["error"] == "BadRequest"
    assert await seen("?namespace=ours&deleted=true", VIEWER) == ["ours"]
    assert server.reading.asked[-1] == ("agents", ("ours",), True)


def addresses(server: Server, namespace: str) -> list[str]:
    """Every address of the API that is read."""
    return [f"/api/v1{each.path}".format(namespace=namespace, name="porep", id=7) for each in server.routes]


async def test_nothing_is_read_without_a_token_or_with_one_that_nobody_knows(server: Server) -> None:
    for address in addresses(server, "ours"):
        for token in (None, "stolen"):
            answer = await server.get(address, token)
            assert (address, answer.status_code, answer.json()["error"]) == (address, 401, "NotSignedIn")
    assert server.reading.asked == []


async def test_a_namespace_that_one_may_not_read_looks_like_one_that_there_is_not(server: Server) -> None:
    for theirs, nobodys in zip(addresses(server, "theirs"), addresses(server, "nobodys"), strict=True):
        if theirs == nobodys:
            continue  # names no namespace
        answers = [await server.get(address, OURS_ALONE) for address in (theirs, nobodys)]
        assert [a.status_code for a in answers] == [403, 403]
        assert answers[0].text.replace("theirs", "nobodys") == answers[1].text
    assert server.reading.asked == []


async def test_each_address_asks_by_itself_whether_the_caller_may_read() -> None:
    """Should the door ever let somebody pass, they still read nothing."""
    asked = []

    class Forbidden:
        async def must_read(self, namespace: str) -> None:
            asked.append(namespace)
            raise NotAllowed("no")

    reading = OneRun()
    for endpoint in ENDPOINTS:
        if "{namespace}" not in endpoint.path:
            continue
        route = endpoint.route(cast("Reading", reading), lambda: BEGAN)
        path = endpoint.path.format(namespace="theirs", name="porep", id=7)
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
        _, found = route.matches(scope)
        scope.update(found, **{"fleetagent.visitor": Forbidden()})
        with pytest.raises(NotAllowed):
            await route.handle(scope, cast("Any", None), cast("Any", None))
    assert asked == ["theirs"] * (len(ENDPOINTS) - 1)
    assert reading.asked == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("runs?limit=0", "limit: input should be greater than or equal to 1"),
        ("runs?limit=201", "limit: input should be less than or equal to 200"),
        ("runs?limit=many", "limit: input should be a valid integer, unable to parse string as an integer"),
        ("runs?limit=1&limit=2", "limit: stands there 2 times; say it once"),
        ("runs?outcome=Good", "outcome: input should be 'Acted', 'Held', "),
        ("runs?trigger=", "trigger: input should be 'Schedule', "),
        (
            "runs?since=yesterday",
            "since: must be a moment such as 2026-11-29T12:00:00Z; in an address, + is written %2B",
        ),
        ("runs?since=2026-11-29T12:00:00 01:00", "since: must be a moment such as"),
        ("runs?until=9999-12-31T23:59:59Z", "until: must be a moment such as"),
        ("runs?since=1700000000", "since: must be a moment such as"),
        ("runs?limits=3", "limits: there is no such parameter here; there are since, until, limit, after, outcome"),
        ("hosts?x=1", "x: there is no such parameter here; there is none"),
        ("runs/7?x=1", "x: there is no such parameter here"),
        ("actions?state=done&state=gone", "state: input should be 'intended', "),
        ("actions?run=-1", "run: input should be greater than or equal to 0"),
        (f"actions?run={2**63}", "run: input should be less than or equal to"),
        ("spend?days=0", "days: "),
        ("samples?since=2026-12-01T08:00:00Z", "since: must lie before until"),
    ],
)
async def test_a_parameter_that_is_wrong_is_refused_by_its_name_with_the_remedy(
    server: Server, query: str, message: str
) -> None:
    answer = await server.get(f"{HERE}/{query}")

    assert (answer.status_code, answer.json()["error"]) == (400, "BadRequest")
    assert message in answer.json()["message"]
    assert server.reading.asked == []


async def test_a_cursor_that_is_none_and_a_database_that_is_away_are_told_apart(server: Server) -> None:
    answer = await server.get(f"{HERE}/runs?after=bad")
    assert (answer.status_code, answer.json()["error"]) == (400, "BadCursor")

    server.reading.away = True
    answer = await server.get(f"{HERE}/runs")
    assert (answer.status_code, answer.json()["error"], answer.headers["retry-after"]) == (503, "TryLater", "5")


@pytest.mark.parametrize(
    "path",
    [
        "runs/8",
        "runs/x",
        "runs/-1",
        "runs/" + "9" * 30,
        "runs/\u0667",
        "sessions/5",
        "sessions/5/export",
        "runs/7/more",
        "x",
    ],
)
async def test_what_is_not_there_is_not_found(server: Server, path: str) -> None:
    answer = await server.get(f"{HERE}/{path}")

    assert (answer.status_code, answer.json()["error"]) == (404, "NotFound")


async def test_a_name_that_no_resource_can_have_is_not_looked_for(server: Server) -> None:
    for name in ("a%00b", "A", "a_b", "%22", "..", "x" * 254):
        assert (await server.get(f"/api/v1/namespaces/ours/agents/{name}/runs")).status_code == 404
    assert server.reading.asked == []


async def test_filters_that_may_be_repeated_are_joined_and_times_have_a_default(server: Server) -> None:
    await server.get(f"{HERE}/actions?state=done&state=refused&run=7")
    await server.get(f"{HERE}/samples?until=2026-11-29T12:00:00Z&most=9")
    await server.get(f"{HERE}/samples")

    assert server.reading.asked == [
        ("actions", KEY, Slice(), {"run_id": 7, "states": ("done", "refused")}),
        ("samples", KEY, NOON - timedelta(hours=24), NOON, 9),
        ("samples", KEY, BEGAN - timedelta(hours=24), BEGAN, 500),
    ]


async def test_the_smallest_amounts_are_decimals_and_what_somebody_said_keeps_its_nulls(server: Server) -> None:
    (day,) = (await server.get(f"{HERE}/spend")).json()["items"]
    assert day == {"day": "2026-11-29", "fleetUsd": "51.20", "modelUsd": "0.000000001", "modelTokens": 3}

    assert (await server.get(f"{HERE}/runs/7")).json()["verdict"] == {"why": None}


async def test_a_session_is_exported_as_chat_completions_take_it(server: Server) -> None:
    call = {"id": "r7_1_0", "name": "launch", "arguments": '{"offer": 7}', "original": "launch!"}
    server.reading.messages = (
        a_message(1, "user", "facts\nü \u2028"),
        a_message(2, "assistant", "", tool_calls=(call,), left_prompt_because="quiet"),
        a_message(3, "tool", "launched", tool_call_id="r7_1_0", history_content="laun"),
    )

    answer = await server.get(f"{HERE}/sessions/4/export")

    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.headers["content-disposition"] == 'attachment; filename="ours-porep-session-4.jsonl"'
    lines = [json.loads(line) for line in answer.text.splitlines()]
    ours = [line.pop("fleetagent") for line in lines]
    function = {"name": "launch", "arguments": '{"offer": 7}'}
    assert lines == [
        {"role": "user", "content": "facts\nü \u2028"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "r7_1_0", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "launched", "tool_call_id": "r7_1_0"},
    ]
    common = {"runID": 7, "at": "2026-11-29T12:00:00Z", "estimatedTokens": 9}
    assert ours == [
        {**common, "seq": 1, "kind": "observation"},
        {**common, "seq": 2, "kind": "reply", "leftPromptBecause": "quiet"},
        {**common, "seq": 3, "kind": "tool_result", "historyContent": "laun"},
    ]


async def test_an_export_ends_when_the_right_to_read_it_does(server: Server) -> None:
    server.reading.messages = tuple(a_message(n, "user", "facts") for n in range(1, 1001))
    whole = await server.get(f"{HERE}/sessions/4/export", OURS_ALONE)
    assert whole.text.count("\n") == 1000

    told: list[bool] = []
    may_read = server.callers.may_read

    async def for_a_while(token: str, namespace: str) -> bool:
        told.append(await may_read(token, namespace))
        return len(told) < 5

    server.callers.may_read = for_a_while  # type: ignore[method-assign]
    cut = (await server.get(f"{HERE}/sessions/4/export")).text.splitlines()
    assert 0 < len(cut) < 1000
    assert json.loads(cut[-1])["error"] == "NotAllowed"
    assert server.reading.closed


async def test_a_client_that_goes_away_ends_the_reading(server: Server) -> None:
    server.reading.messages = tuple(a_message(n, "user", "facts") for n in range(1, 100_001))
    sent: list[dict[str, Any]] = []
    headers = [(b"authorization", f"Bearer {ADMIN}".encode()), (b"host", b"localhost")]
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{HERE}/sessions/4/export",
        "raw_path": b"",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await server.app(scope, receive, send)

    assert server.reading.closed
    assert sum(message.get("body", b"").count(b"\n") for message in sent) < 100_000


def test_the_document_is_valid_and_describes_every_route_that_is_served(server: Server) -> None:
    described = document()
    OpenAPIV31SpecValidator(cast("Any", described)).validate()

    (mount,) = (route for route in server.app.routes if isinstance(route, Mount))
    served = {
        (route.path, method.lower())
        for route in mount.routes or ()
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert served == {(path, method) for path, operations in described["paths"].items() for method in operations}
    assert len(served) == len(ENDPOINTS) + len(VERBS) + 1
    assert "null" not in json.dumps(described)


async def test_nothing_is_read_for_who_wants_no_body(server: Server) -> None:
    headers = {"authorization": f"Bearer {ADMIN}"}
    transport = httpx.ASGITransport(server.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=LOOPBACK, headers=headers) as client:
        answer = await client.head(f"{HERE}/sessions/4/export")

    assert answer.status_code == 405
    assert server.reading.asked == []


async def test_the_document_is_served_as_it_is_made(server: Server) -> None:
    assert (await server.get("/api/v1/openapi.json")).json() == json.loads(json.dumps(document()))
