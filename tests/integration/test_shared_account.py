"""Two agents, people and strangers on one account: each agent sees, counts and ends its own machines and no others."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleetagent.agent.subject import label_prefix
from fleetagent.bootstrap.sweep import sweep
from fleetagent.domain.records import AgentKey
from support.asked import World, ids
from support.asking import LOOK, launch, stop
from support.engine import CLUSTER, NAMESPACE, StoredCluster, a_body, an_engine, prefix_of
from support.servers import MARKET_KEY, Market, a_market, a_model

OURS, THEIRS = "porep", "snap"
HASH = prefix_of(OURS).split("/")[1]
LOOK_ALIKES: tuple[str | None, ...] = (
    None,
    "",
    "by hand",
    "fa/",
    HASH,
    f"fa/{HASH}",
    f"fa/{HASH}x/abcdefabcdef",
    f"fa/{HASH[:-1]}/abcdefabcdef",
    f"x{prefix_of(OURS)}abcdefabcdef",
    f" {prefix_of(OURS)}abcdefabcdef",
    f"{prefix_of(OURS).upper()}abcdefabcdef",
    f"fa//{HASH}/abcdefabcdef",
    label_prefix("elsewhere", AgentKey(NAMESPACE, OURS)) + "abcdefabcdef",
    label_prefix(CLUSTER, AgentKey("staging", OURS)) + "abcdefabcdef",
)


@dataclass
class Account:
    """One key, and everybody who uses it."""

    market: Market
    porep: World
    snap: World
    by_hand: list[str]

    def live(self, name: str) -> list[str]:
        """The machines of one agent that exist."""
        return ids(m for m in self.market.live() if (m["label"] or "").startswith(prefix_of(name)))

    def foreign_ones_live(self) -> bool:
        """Whether nobody touched what no agent has rented."""
        return set(self.by_hand) <= set(ids(self.market.live()))


@pytest.fixture
async def account(database_url: str) -> AsyncIterator[Account]:
    """Two agents with two machines each, among others' that look alike."""
    async with AsyncExitStack() as stack:
        market = stack.enter_context(a_market())
        by_hand = [str(market.post("machines", {"label": label})["id"]) for label in LOOK_ALIKES]
        worlds = []
        for number, name in enumerate((OURS, THEIRS)):
            model = stack.enter_context(a_model())
            spec = {"target": {"proofsPerHour": 5000}, "budget": {"fleetUsdPerHour": "100"}}
            body = a_body(market.base_url, model.url, name=name, uid=f"uid-{number}", spec=spec)
            engine = await stack.enter_async_context(an_engine(database_url, StoredCluster(body), owner=name))
            worlds.append(World(engine, market, model, database_url))
        account = Account(market, worlds[0], worlds[1], by_hand)
        for world in worlds:
            offers = await world.look()
            await world.ask([LOOK], [launch(offers[0]), launch(offers[1])])
        for world in worlds:
            await world.engine.beat(minutes=5)
        assert [len(account.live(name)) for name in (OURS, THEIRS)] == [2, 2]
        yield account


def counted(world: World) -> int:
    """How many machines the agent says that it has."""
    count: int = world.engine.cluster.status["fleet"]["instances"]
    return count


async def test_each_counts_its_own_and_ends_no_other_whatever_the_model_asks_for(account: Account) -> None:
    for world, other in ((account.porep, THEIRS), (account.snap, OURS)):
        assert counted(world) == 2
        world.engine.change(target={"proofsPerHour": 1})
        for foreign in (*account.live(other), *account.by_hand):
            asked = await world.ask([stop(foreign), stop(f" {foreign} "), stop(f"#{foreign}")])
            assert set(asked) == {"UnknownInstance"}, foreign
    for world in (account.porep, account.snap):
        await world.engine.beat(minutes=30)

    assert account.market.get("state")["calls"]["destroy"] == 0
    assert account.foreign_ones_live()
    assert set(account.porep.held().values()) == set(account.live(OURS))
    assert set(account.snap.held().values()) == set(account.live(THEIRS))


async def test_deleting_one_leaves_the_others_machines_and_everybody_elses(account: Account) -> None:
    kept = account.live(THEIRS)
    engine = account.porep.engine
    engine.cluster.body["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"

    for _ in range(10):
        if await engine.built.triggers.delete(engine.cluster.body) is None:
            break
        engine.clock.advance(minutes=1)
    await account.snap.engine.beat(minutes=5)

    assert account.live(OURS) == []
    assert account.live(THEIRS) == kept
    assert account.foreign_ones_live()
    assert counted(account.snap) == 2
    assert set(account.snap.held().values()) == set(kept)


async def test_a_sweep_for_one_ends_its_machines_alone(account: Account, tmp_path: Path) -> None:
    kept = account.live(THEIRS)

    assert await asyncio.to_thread(swept, account.market, tmp_path) == 0

    assert account.live(OURS) == []
    assert account.live(THEIRS) == kept
    assert account.foreign_ones_live()


def swept(market: Market, folder: Path) -> int:
    """The command's exit code; it runs an event loop of its own."""
    key = folder / "key"
    key.write_text(MARKET_KEY)
    wish = {"namespace": NAMESPACE, "name": OURS, "cluster": CLUSTER, "destroy": True, "all": False}
    return asyncio.run(sweep(argparse.Namespace(market_url=market.base_url, api_key_file=str(key), **wish)))
