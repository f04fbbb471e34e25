"""/: the list of agents."""

import pytest

from fleetagent.domain.records import AgentKey
from fleetagent.errors import NotAllowed
from support.door import BEGAN, OURS_ALONE, MadeUpCallers
from support.made_up_past import MadeUpPast
from support.page import KEY, Premises, a_row, stored

OTHER = AgentKey("theirs", "snap")


def two_namespaces() -> Premises:
    callers = MadeUpCallers(agents={KEY: stored(), OTHER: stored(OTHER)})
    return Premises(callers, MadeUpPast(known=[a_row(), a_row(OTHER)]))


async def test_the_list_says_of_each_agent_what_its_status_says() -> None:
    async with Premises().client() as client:
        page = (await client.get("/")).raise_for_status().text

    for said in (
        "porep",
        "on target",
        ">410<",
        "/ 500",
        ">485<",
        'value="3.4213">3.42<',
        "/ 4.00",
        ">120,345<",
        ">412<",
    ):
        assert said in page
    assert "in 5 min" in page


async def test_a_visitor_of_one_namespace_is_shown_nothing_of_another() -> None:
    async with two_namespaces().client(OURS_ALONE) as client:
        page = (await client.get("/")).raise_for_status().text
        refused = await client.get("/?namespace=theirs")

    assert "porep" in page
    assert "theirs" not in page
    assert "snap" not in page
    assert refused.status_code == 403
    assert "snap" not in refused.text


async def test_the_list_shows_one_namespace_where_one_is_asked_for() -> None:
    async with two_namespaces().client() as client:
        page = (await client.get("/?namespace=theirs")).raise_for_status().text

    assert 'id="open-theirs-snap"' in page
    assert 'id="open-ours-porep"' not in page


async def test_the_resources_are_listed_once_for_all_who_look_within_seconds() -> None:
    premises = two_namespaces()
    async with premises.client() as one, premises.client() as another:
        for client in (one, another, one):
            (await client.get("/lines")).raise_for_status()
        listed = [what for what, _ in premises.callers.asked if what == "resources"]
        premises.now = BEGAN.replace(minute=1)
        (await one.get("/lines")).raise_for_status()

    assert len(listed) == 1
    assert [what for what, _ in premises.callers.asked].count("resources") == 2


async def test_what_one_listed_for_all_is_not_shown_to_who_may_not_read_it() -> None:
    premises = two_namespaces()
    async with premises.client() as all_of_it, premises.client(OURS_ALONE) as ours:
        (await all_of_it.get("/lines")).raise_for_status()
        page = (await ours.get("/lines")).raise_for_status().text

    assert "snap" not in page


async def test_an_agent_that_no_operator_with_this_database_looks_after_is_not_listed() -> None:
    premises = two_namespaces()
    elsewhere = AgentKey("elsewhere", "unwatched")
    premises.callers.agents[elsewhere] = stored(elsewhere)
    async with premises.client() as client:
        page = (await client.get("/lines")).raise_for_status().text

    assert "porep" in page
    assert "unwatched" not in page


async def test_who_may_get_and_not_list_sees_what_the_database_knows() -> None:
    class NoList(MadeUpCallers):
        async def resources(self, token: str, namespace: str) -> tuple[dict[str, object], ...]:
            raise NotAllowed(f"{token} may not list in {namespace!r}")

    premises = Premises(NoList(), MadeUpPast(known=[a_row(open_alerts=3)]))
    async with premises.client() as client:
        page = (await client.get("/")).raise_for_status().text

    assert "may not be listed" in page
    assert "3 open" in page


async def test_a_database_that_goes_away_takes_nothing_from_the_list() -> None:
    premises = Premises()
    async with premises.client() as client:
        early = (await client.get("/")).raise_for_status().text
        premises.past.away, premises.now = True, BEGAN.replace(minute=1)
        late = (await client.get("/")).raise_for_status().text

    assert 'value="3.4213"' in early
    assert 'value="3.4213"' in late


async def test_deleted_agents_are_shown_where_they_are_asked_for() -> None:
    gone = a_row(AgentKey("ours", "former"), deleted_at=BEGAN)
    premises = Premises(past=MadeUpPast(known=[a_row(), gone]))
    async with premises.client() as client:
        usual, with_deleted = (await client.get("/")).text, (await client.get("/?deleted=1")).text

    assert "former" not in usual
    assert "former" in with_deleted
    assert "deleted" in with_deleted


async def test_an_empty_list_says_what_to_do_next() -> None:
    premises = Premises(past=MadeUpPast(known=[]))
    async with premises.client() as client:
        page = (await client.get("/")).raise_for_status().text

    assert "kubectl apply" in page
    assert "fleetagent-viewer" in page


async def test_a_long_list_is_shown_a_hundred_at_a_time() -> None:
    keys = [AgentKey("ours", f"agent-{number:03}") for number in range(150)]
    premises = Premises(
        MadeUpCallers(agents={key: stored(key) for key in keys}), MadeUpPast(known=[a_row(key) for key in keys])
    )
    premises.callers.agents.pop(KEY)
    async with premises.client() as client:
        first = (await client.get("/lines")).text
        second = (await client.get("/lines?after=ours/agent-099")).text

    assert first.count("<tr") == 101
    assert 'href="/?namespace=&amp;deleted=0&amp;after=ours/agent-099"' in first
    assert second.count("<tr") == 51
    assert "agent-099" not in second


async def test_a_resource_that_cannot_be_read_takes_one_line_and_not_the_page() -> None:
    broken = {**stored(OTHER), "spec": {"target": "nonsense"}}
    premises = Premises(MadeUpCallers(agents={KEY: stored(), OTHER: broken}), MadeUpPast(known=[a_row(), a_row(OTHER)]))
    async with premises.client() as client:
        page = (await client.get("/")).raise_for_status().text

    assert "unreadable" in page
    assert "on target" in page


@pytest.mark.parametrize("path", ["/", "/lines", "/events"])
async def test_nothing_of_the_list_is_there_without_a_token(path: str) -> None:
    async with Premises().client() as client:
        answer = await client.get(path, headers={"authorization": ""})

    assert answer.status_code in {303, 401}
    assert "porep" not in answer.text
