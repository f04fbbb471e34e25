"""A list of machines that cannot be trusted is "unknown", never "none": nothing is done until it can be read again."""

from collections.abc import AsyncIterator

import httpx
import pytest

from support.asked import World, ids, two_of_ours
from support.asking import LOOK, launch, stop
from support.border import Border, Edit, changed, failing, instead, rows_of

GONE = {"success": False, "error": "deprecated_endpoint", "msg": "this endpoint is retired, use /api/v1/instances/"}
BAD_KEY = {"success": False, "error": "auth_error", "msg": "Invalid user key"}
HTML = "<html><head><title>502</title></head><body>Bad Gateway</body></html>"

Lists = dict[str, Edit]

REFUSALS: Lists = {
    "410": instead(GONE, 410),
    "the deprecation with 200": instead(GONE),
    "500": instead({"success": False, "error": "server_error"}, 500),
    "401": instead(BAD_KEY, 401),
    "404 for the key": instead(BAD_KEY, 404),
    "403 for the scope": instead({"success": False, "error": "forbidden", "msg": "needs instance_read"}, 403),
    "success: false with 200": changed(lambda said: said | {"success": False}),
    "429 in plain text": instead("API requests too frequent", 429, {"Retry-After": "120"}),
}
NO_ANSWERS: Lists = {
    "an empty string": instead(""),
    "HTML with 200": instead(HTML),
    "HTML with 502": instead(HTML, 502),
    "half an answer": instead('{"success": true, "instances": [{"id": 50300'),
    "a time-out": failing(httpx.ReadTimeout),
    "a reset": failing(httpx.ReadError),
}
WRONG_SHAPES: Lists = {
    "an empty object": instead({}),
    "null": instead("null"),
    "null machines": instead({"success": True, "instances": None}),
    "no more than an empty list": instead([]),
    "machines as an object": changed(lambda said: said | {"instances": {str(r["id"]): r for r in said["instances"]}}),
    "a row that is none": changed(lambda said: said | {"instances": [said["instances"][0], "a machine"]}),
    "a row without an id": changed(rows_of(lambda rows: [rows[0], {**rows[1], "id": None}])),
    "a total in words": changed(lambda said: said | {"total_instances": "two"}),
    "no total": changed(lambda said: {name: value for name, value in said.items() if name != "total_instances"}),
}
NOT_WHOLE: Lists = {
    "half a page": changed(lambda said: said | {"instances": said["instances"][:1], "instances_found": 1}),
    "a page of many": changed(lambda said: said | {"total_instances": 60, "next_token": None}),
    "a total that is too small": changed(lambda said: said | {"total_instances": 1}),
    "pages without end": changed(lambda said: said | {"next_token": "again"}),
    "one machine twice": changed(rows_of(lambda rows: [rows[0], rows[0]])),
    "one machine is missing": changed(rows_of(lambda rows: rows[1:])),
    "a sudden empty list": changed(rows_of(lambda _: [])),
}


@pytest.fixture
def border() -> Border:
    """Lets everything pass until a test says otherwise."""
    return Border()


@pytest.fixture
async def two_machines(database_url: str, border: Border) -> AsyncIterator[World]:
    async with two_of_ours(database_url, border) as world:
        yield world


async def check_nothing_is_done(world: World, name: str) -> None:
    """Not by the model that asks for both, not by code while time passes; and everybody is told."""
    before, calls = world.held(), world.calls("create", "destroy")
    offer, victim = world.shown[4], ids(world.live())[0]

    assert await world.ask([LOOK], [launch(offer), stop(victim)]) == ["FleetUnknown", "FleetUnknown"], name
    await world.engine.beat(minutes=10)

    assert world.calls("create", "destroy") == calls, name
    assert world.held() == before, name
    assert world.open_alerts() == ["FleetUnknown"], f"{name}: said once, however long it lasts"
    assert world.engine.cluster.condition("FleetKnown")["status"] == "False", name
    assert world.engine.cluster.condition("OnTarget")["status"] == "Unknown", name
    assert world.engine.cluster.status["fleet"]["instances"] == len(before), f"{name}: the last good view stands"


async def check_recovery(world: World, name: str) -> None:
    """What was said is taken back."""
    await world.engine.beat(minutes=10)

    assert world.engine.cluster.condition("FleetKnown")["status"] == "True", name
    assert world.open_alerts() == [], name


@pytest.mark.parametrize(
    "lists",
    [REFUSALS, NO_ANSWERS, WRONG_SHAPES, NOT_WHOLE],
    ids=["refusals", "no answers", "wrong shapes", "not whole"],
)
async def test_nothing_is_launched_or_stopped_on_a_list_that_cannot_be_trusted(
    two_machines: World, border: Border, lists: Lists
) -> None:
    for name, edit in lists.items():
        border.edits["list"] = edit
        await check_nothing_is_done(two_machines, name)
        border.edits.clear()
        await check_recovery(two_machines, name)

    assert await two_machines.ask([LOOK], [launch(two_machines.shown[4])]) == ["done"]
    await two_machines.engine.beat(minutes=5)
    assert two_machines.calls("create", "destroy") == (3, 0)
    two_machines.check_books()


async def test_a_list_of_another_account_or_of_nobody_knows_which_says_nothing_about_our_machines(
    two_machines: World, border: Border
) -> None:
    border.edits["account"] = changed(lambda said: said | {"id": said["id"] + 1})
    border.edits["list"] = changed(rows_of(lambda _: []))
    await check_nothing_is_done(two_machines, "another account")
    assert two_machines.engine.cluster.condition("FleetKnown")["reason"] == "AccountChanged"
    border.edits.clear()
    await check_recovery(two_machines, "another account")

    no_accounts = {
        "an empty object": instead({}),
        "no id": changed(lambda said: said | {"id": None}),
        "500": instead(HTML, 500),
        "a time-out": failing(httpx.ReadTimeout),
    }
    for name, edit in no_accounts.items():
        border.edits["account"] = edit
        await check_nothing_is_done(two_machines, name)
        border.edits.clear()
        await check_recovery(two_machines, name)


async def test_a_machine_that_the_list_lacks_is_gone_only_when_the_market_says_so_twice_of_itself(
    two_machines: World, border: Border
) -> None:
    world = two_machines
    gone, kept = ids(world.live())
    border.edits["list"] = changed(rows_of(lambda rows: [r for r in rows if str(r["id"]) != gone]))
    border.edits["show"] = instead("", 500)
    await world.engine.beat(minutes=10)
    assert len(world.held()) == 2, "who gives no answer has not said that there is none"

    world.market.post(f"machines/{gone}/destroy")
    border.edits.clear()
    await world.engine.beat(seconds=40)
    assert len(world.held()) == 2, "once is not enough"
    assert world.engine.cluster.condition("FleetKnown")["status"] == "False"
    await world.engine.beat(seconds=90)

    assert list(world.held().values()) == [kept]
    assert world.engine.cluster.condition("FleetKnown")["status"] == "True"
    assert world.open_alerts() == []
    news = world.rows("SELECT words FROM triggers WHERE kind = 'Event' AND words LIKE '%%is lost%%'")
    assert len(news) == 1, "the agent is told once"
    world.check_books()
