"""A whole operator through hours of a market that fails as markets do, in virtual time."""

import asyncio
from typing import Any

from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.sim.marketplace.machines import Machine
from support import virtual_time
from support.virtual_time import VirtualLoop
from support.virtual_world import World, a_database, a_world

HOURS = 5
MOST_MACHINES = 8
"""Six make the target; a machine that loads for half an hour is not ordered again every five minutes."""
SPEC: dict[str, Any] = {
    "target": {"proofsPerHour": 500},
    "budget": {"fleetUsdPerHour": "4.00", "usdPerProof": "0.008"},
    "fleet": {"vast": {"offers": {"maxUsdPerHour": "0.90"}}},
}


def test_hours_of_a_market_that_fails_end_on_target_with_ledger_and_market_of_one_mind(
    postgres_server: EmbeddedPostgres,
) -> None:
    url = a_database(postgres_server, "virtual_hours")
    migrate_to_head(url)

    async def hours(loop: VirtualLoop) -> None:
        async with a_world(loop, url, spec=SPEC, market={"seed": 1}, look_seconds=150) as world:
            world.built.triggers.look(world.body)
            await asyncio.sleep(HOURS * 3600)
            await ends_well(world)

    virtual_time.run(hours)


async def ends_well(world: World) -> None:
    """No machine without a row, none twice for one order, and the target is reached."""
    live = world.market.live()
    known = await world.rows("SELECT provider_id FROM instances WHERE phase NOT IN ('gone', 'failed')")
    assert {str(m.id) for m in live} == {row["provider_id"] for row in known}
    labels = [m.label for m in world.market.machines.values()]
    assert len(labels) == len(set(labels))
    assert sum(m.fate.rate for m in live if _proves(world, m)) >= 485
    assert world.market.most_live <= MOST_MACHINES


def _proves(world: World, machine: Machine) -> bool:
    return machine.worker.state == "proving" and machine.status_at(world.market.clock.market()) == "running"
