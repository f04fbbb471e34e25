"""A create whose answer says nothing sure makes one machine at most: found by its label, or ended and reported."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import httpx
import pytest

from support.asked import World, a_world, ids, two_of_ours
from support.asking import LOOK, launch
from support.border import Border, Edit, LateCreate, changed, rows_of, took_effect_and
from support.manifests import Json

HTML = "<html><body>502 Bad Gateway</body></html>"


@pytest.fixture
def border() -> Border:
    """Lets everything pass until a test says otherwise."""
    return Border()


@pytest.fixture
async def world(database_url: str, border: Border) -> AsyncIterator[World]:
    async with a_world(database_url, border) as ready:
        yield ready


UNCLEAR: dict[str, Edit] = {
    "504": took_effect_and(httpx.Response(504, content=HTML)),
    "a reset": took_effect_and(httpx.ReadError),
    "a connection that ends": took_effect_and(httpx.RemoteProtocolError),
    "slower than we wait": took_effect_and(httpx.ReadTimeout),
    "no id": took_effect_and(httpx.Response(200, content='{"success": true}')),
    "null as its id": took_effect_and(httpx.Response(200, content='{"success": true, "new_contract": null}')),
    "an empty answer": took_effect_and(httpx.Response(200, content="")),
    "HTML with 200": took_effect_and(httpx.Response(200, content=HTML)),
    "success: false without a code": took_effect_and(httpx.Response(200, content='{"success": false}')),
    "500 in JSON": took_effect_and(httpx.Response(500, content='{"success": false, "error": "server_error"}')),
    "an id that nobody has": took_effect_and("59999999"),
}


async def test_a_create_that_took_effect_is_found_by_its_label_and_never_made_again(
    world: World, border: Border
) -> None:
    offers = await world.look()
    for offer, (name, edit) in zip(offers, UNCLEAR.items(), strict=False):
        border.edits["create"] = edit
        first = await world.ask([LOOK], [launch(offer)])
        border.edits.clear()
        again = await world.ask([LOOK], [launch(offer)])

        assert first in (["unknown"], ["done"]), name
        assert again not in (["unknown"], ["done"]), name
    for _ in range(4):
        await world.engine.beat(minutes=2)

    assert world.calls("create", "destroy") == (len(UNCLEAR), 0)
    states = [row["state"] for row in world.rows("SELECT state FROM actions WHERE state <> 'refused'")]
    assert states == ["done"] * len(UNCLEAR)
    world.check_books()


async def test_an_error_that_names_the_machine_is_a_machine(world: World) -> None:
    world.market.put("faults", {"create": {"kind": "created_then_error_with_id", "times": 1}})

    assert await world.ask([LOOK], [launch(world.shown[0])]) in (["unknown"], ["done"])  # a look may have found it
    told = world.rows("SELECT content FROM messages WHERE role = 'tool' AND content LIKE '%%\"unclear\"%%'")
    assert len(told) == 1
    await world.engine.beat(minutes=2)

    assert world.calls("create", "destroy") == (1, 0)
    world.check_books()


async def test_an_answer_that_names_somebody_elses_machine_gives_us_no_right_to_it(
    world: World, border: Border
) -> None:
    theirs = world.market.post("machines", {"label": None})
    border.edits["create"] = took_effect_and(str(theirs["id"]))

    await world.ask([LOOK], [launch(world.shown[0])])
    border.edits.clear()
    for _ in range(4):
        await world.engine.beat(minutes=2)
    await world.ask([{"name": "stop_instance", "arguments": {"instance_id": str(theirs["id"]), "reason": "x"}}])
    world.engine.change(target={"proofsPerHour": 1}, limits={"minInstances": 0})
    await world.ask([{"name": "stop_instance", "arguments": {"instance_id": str(theirs["id"]), "reason": "x"}}])
    await world.engine.beat(minutes=2)

    assert theirs["id"] in [m["id"] for m in world.market.live()]
    assert world.calls("create", "destroy") == (1, 0)
    world.check_books()


async def given_up(world: World, border: Border) -> LateCreate:
    """A create that nobody answered for, and that was not seen for so long that it counts no more."""
    late = LateCreate()
    border.edits["create"] = late
    assert await world.ask([LOOK], [launch(world.shown[0])]) == ["unknown"]
    border.edits.clear()
    for _ in range(4):
        await world.engine.beat(minutes=2.5)
    assert world.held() == {}, "it is given up"
    spent = world.rows("SELECT coalesce(sum(usd), 0) AS usd FROM spend WHERE kind = 'fleet'")[0]["usd"]
    assert abs(spent) < 1e-6, "what never existed has cost nothing"
    return late


@pytest.mark.parametrize(
    "meanwhile",
    [{}, {"mode": "Suspended"}, {"mode": "DryRun"}, {"pause": {"until": "2099-01-01T00:00:00Z", "directions": ["Up"]}}],
    ids=["nothing changed", "suspended", "a dry run", "paused"],
)
async def test_one_that_turns_up_after_it_was_given_up_is_adopted_and_reported(
    world: World, border: Border, meanwhile: Json
) -> None:
    late = await given_up(world, border)
    world.engine.change(**meanwhile)

    await late.appears()
    await world.engine.beat(seconds=30)
    await world.engine.beat(minutes=2)

    assert len(world.live()) == 1
    assert world.calls("create", "destroy") == (1, 0)
    assert list(world.held().values()) == ids(world.live())
    assert told_of(world, ids(world.live())[0]), "the agent and people are told"


@pytest.mark.parametrize(
    "limit",
    [
        {"limits": {"maxInstances": 1}},
        {"budget": {"fleetUsdPerHour": "0.80"}},
        {"budget": {"fleetUsdPerDay": "0.00"}},
    ],
    ids=["no room", "no money by the hour", "no money by the day"],
)
async def test_one_that_turns_up_where_no_launch_would_be_allowed_is_ended_and_reported(
    world: World, border: Border, limit: Json
) -> None:
    late = await given_up(world, border)
    assert await world.ask([LOOK], [launch(world.shown[1])]) == ["done"]
    (kept,) = ids(world.live())
    world.engine.change(**limit)

    await late.appears()
    await world.engine.beat(seconds=30)
    await world.engine.beat(minutes=2)
    await world.engine.beat(minutes=2)

    assert ids(world.live()) == [kept]
    assert list(world.held().values()) == [kept]
    assert world.calls("create", "destroy") == (2, 1)
    late_one = max(world.market.get("state")["machines"], key=lambda machine: int(machine["id"]))
    assert told_of(world, str(late_one["id"]))


def told_of(world: World, machine: str) -> list[str]:
    """What agent and people were told of it."""
    to_agent = [
        r["words"] for r in world.rows("SELECT words FROM triggers WHERE kind = 'Event'") if machine in r["words"]
    ]
    to_people = [words for _, words in world.engine.cluster.events if machine in words]
    return to_agent if to_people else []


@pytest.mark.parametrize("hidden", ["the row", "the label"])
@pytest.mark.parametrize("answered", [True, False], ids=["with its id", "without an answer"])
async def test_reads_that_lag_behind_a_create_make_no_second_machine_and_no_alarm(
    world: World, border: Border, hidden: str, *, answered: bool
) -> None:
    clock, until, seen = world.engine.clock, world.engine.clock.now(), set[str]()

    def lagging(rows: list[Json]) -> list[Json]:
        new = [row for row in rows if clock.now() < until and str(row["id"]) not in seen]
        late = [row | {"label": None} for row in new] if hidden == "the label" else []
        return [row for row in rows if row not in new] + late

    for offer, lag_s in zip(world.shown, (10, 30, 120), strict=False):
        border.edits = {} if answered else {"create": took_effect_and(httpx.ReadError)}
        border.edits |= {"list": changed(rows_of(lagging)), "show": changed(lambda said: shown(said, lagging))}
        until, seen = clock.now() + timedelta(seconds=lag_s), set(ids(world.live()))
        first = await world.ask([LOOK], [launch(offer)])
        assert first in (["unknown"], ["done"])
        for _ in range(4):
            assert await world.ask([LOOK], [launch(offer)], seconds=lag_s / 3) not in (["unknown"], ["done"])
        await world.engine.beat(minutes=5)

    assert world.calls("create", "destroy") == (3, 0)
    assert world.rows("SELECT * FROM alerts") == []
    assert not [said for said in world.engine.cluster.events if said[0] in {"FleetUnknown", "MachineAdopted"}]
    world.check_books()


def shown(said: Json, lagging: Callable[[list[Json]], list[Json]]) -> Json:
    """The same of one machine that is asked for."""
    rows = lagging([said["instances"]] if said["instances"] else [])
    return {"instances": rows[0] if rows else None}


async def test_a_list_that_drops_a_machine_once_in_ten_calls_makes_no_second_launch_and_no_storm(
    database_url: str, border: Border
) -> None:
    async with two_of_ours(database_url, border) as world:
        seen = 0

        def dropping(rows: list[Json]) -> list[Json]:
            nonlocal seen
            seen += 1
            return rows[1:] if seen % 10 == 0 else rows

        border.edits["list"] = changed(rows_of(dropping))
        events, triggers = len(world.engine.cluster.events), len(world.rows("SELECT id FROM triggers"))
        for _ in range(100):
            await world.engine.beat(seconds=30)

        assert seen >= 100
        assert world.calls("create", "destroy") == (2, 0)
        assert len(world.held()) == 2
        news = [row["words"] for row in world.rows("SELECT words FROM triggers ORDER BY id")[triggers:]]
        assert len(news) <= 2, f"that each is online, and no more: {news}"
        assert len(world.engine.cluster.events) - events <= 2, world.engine.cluster.events[events:]
        assert world.rows("SELECT * FROM alerts") == []
        world.check_books()
