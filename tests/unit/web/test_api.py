"""The reading half of the API: who may, what may be asked, and what is answered."""

from datetime import timedelta
from typing import Any, cast

import pytest

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.web.api.table import ENDPOINTS
from fleetagent.errors import NotAllowed
from fleetagent.ports.reading import Reading, Slice
from support.door import BEGAN, OURS_ALONE, VIEWER
from support.one_run import HERE, KEY, NOON, OneRun, Server


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
