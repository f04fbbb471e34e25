"""What somebody changes while the model thinks: a launch is priced, ordered and watched as it is asked for by then."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from support.asked import World
from support.asking import LOOK, launch
from support.border import Border, Send
from support.engine import StoredCluster, a_body, an_engine
from support.manifests import merged
from support.servers import MARKET_KEY, a_market, a_model

OTHER_KEY = "another-account"
SPEC = {"target": {"proofsPerHour": 5000}, "budget": {"fleetUsdPerHour": "0.60"}}


@pytest.fixture
def border() -> Border:
    """Lets everything pass until a test says otherwise."""
    return Border()


@pytest.fixture
async def world(database_url: str, border: Border) -> AsyncIterator[World]:
    with a_market(api_keys=(MARKET_KEY, OTHER_KEY)) as market, a_model() as model:
        cluster = StoredCluster(a_body(market.base_url, model.url, spec=SPEC))
        async with an_engine(database_url, cluster, border=border) as engine:
            world = World(engine, market, model, database_url)
            await world.look()
            yield world


def while_it_looks(border: Border, change: Callable[[], None]) -> None:
    """Somebody changes something while a run looks at offers."""

    async def edit(_: httpx.Request, send: Send) -> httpx.Response:
        found = await send()
        if "search" in border.edits:
            del border.edits["search"]
            change()
        return found

    border.edits["search"] = edit


def apply(world: World, **spec: Any) -> None:
    """The operator hears of it at once."""
    world.engine.change(**spec)
    world.engine.keeper._body = merged(world.engine.cluster.body, {})


async def test_with_another_accounts_key_the_machine_is_rented_where_it_is_watched(
    world: World, border: Border
) -> None:
    while_it_looks(border, lambda: world.engine.cluster.secrets.update({"api-key": OTHER_KEY}))

    await world.ask([LOOK], [launch(world.shown[0])], minutes=5)
    for _ in range(6):
        await world.engine.beat(minutes=2)

    assert len(world.live()) == 1
    world.check_books()


async def test_a_larger_disk_is_priced_before_it_is_ordered(world: World, border: Border) -> None:
    while_it_looks(border, lambda: apply(world, fleet={"vast": {"instance": {"diskGB": 2000}}}))

    states = await world.ask([LOOK], [launch(world.shown[0])], minutes=5)

    assert border.edits == {}, "it was changed while the run went on"
    assert states == ["OfferDearer"]
    assert world.live() == []
