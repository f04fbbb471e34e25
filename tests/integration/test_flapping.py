"""What the fleet does by itself, or what a run makes it do, must not make the agent run for ever: each run costs."""

import asyncio
from typing import Any

from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.sim.marketplace.wishes import flap
from support import virtual_time
from support.virtual_time import VirtualLoop
from support.virtual_world import World, a_database, a_world

SPEC: dict[str, Any] = {
    "target": {"proofsPerHour": 60},
    "schedule": {"interval": "24h"},
    "budget": {"fleetUsdPerHour": "4.00", "usdPerProof": "0.008"},
    "fleet": {"vast": {"offers": {"maxUsdPerHour": "0.90"}}},
}
LOOK_SECONDS = 10.0
FLIPS_EVERY_S, FLIPS_FOR_S = 2, 20 * 60
MOST_RUNS = 8
"""In those 20 minutes: a silence and a return are told at most once in ten minutes each, and a burst is one run."""


def test_a_machine_that_flips_every_two_seconds_causes_a_run_within_the_longest_wait_and_few_more(
    postgres_server: EmbeddedPostgres,
) -> None:
    url = a_database(postgres_server, "virtual_flapping")
    migrate_to_head(url)

    async def story(loop: VirtualLoop) -> None:
        async with a_world(
            loop, url, spec=SPEC, market={"seed": 3, "moving": False}, look_seconds=LOOK_SECONDS
        ) as world:
            world.built.triggers.look(world.body)
            await all_prove(world)
            before = await runs(world)
            began = world.now()
            for machine in world.market.live():
                flap(world.market, machine, "offline", every_s=FLIPS_EVERY_S, times=FLIPS_FOR_S // FLIPS_EVERY_S // 2)
            await asyncio.sleep(FLIPS_FOR_S)

            caused = (await runs(world))[len(before) :]
            assert 1 <= len(caused) <= MOST_RUNS, caused
            assert (caused[0]["started_at"] - began).total_seconds() <= 60 + 4 * LOOK_SECONDS
            assert {kind for run in caused for kind in run["triggers"]} == {"Event"}
            await asyncio.sleep(15 * 60)
            assert len(await runs(world)) - len(before) - len(caused) <= 2, "it is quiet again afterwards"
            assert len(world.market.live()) == len({m.label for m in world.market.live()})

    virtual_time.run(story)


async def all_prove(world: World) -> None:
    """The agent has made its fleet, which caused events of its own, and has come to rest: ten quiet minutes."""
    for _ in range(24):
        await asyncio.sleep(600)
        proving = await world.rows("SELECT label FROM instances WHERE phase = 'proving'")
        recent = await world.rows("SELECT run_id FROM runs WHERE started_at > now() - interval '10 minutes'")
        if proving and not recent:
            return
    raise AssertionError(f"its own effects keep it awake: {await runs(world)}")


async def runs(world: World) -> list[dict[str, Any]]:
    """Every run, oldest first."""
    return await world.rows("SELECT run_id, triggers, started_at, outcome FROM runs ORDER BY run_id")
