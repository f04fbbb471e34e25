"""A simulated market without HTTP, whose clock only the test moves."""

from typing import Any

from fleetagent.sim.marketplace import MarketplaceConfig
from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.market import Account, Market
from fleetagent.sim.marketplace.rows import instance_row

WALL = 1_800_000_000.0
HOUR_S = 3600
DAY_S = 24 * HOUR_S
AN_ORDER: dict[str, Any] = {"image": "example/prover:1", "disk": 250, "label": "fa/x/1", "cancel_unavail": True}


def a_market(**changes: Any) -> Market:
    """A reliable one, whose market time moves by `clock.advance` alone."""
    clock = Clock(changes.get("time_scale", 1.0), steady=lambda: 0.0, wall=lambda: WALL)
    return Market(MarketplaceConfig(**{"reliable": True, "moving": False} | changes), clock)


def the_account(market: Market) -> Account:
    return market.accounts[0]


def cheapest(market: Market) -> dict[str, Any]:
    query = {"gpu_name": {"eq": "RTX 4090"}, "disk_space": {"gte": 250}, "order": [["dph_total", "asc"]]}
    return market.search(query)[0]


def a_machine(market: Market, **changes: Any) -> Machine:
    return market.create(the_account(market), cheapest(market)["id"], AN_ORDER | changes)


def a_running_machine(market: Market, **changes: Any) -> Machine:
    """One that has loaded."""
    machine = a_machine(market, **changes)
    market.clock.advance(machine.fate.provisioning_s + machine.fate.loading_s + 10)
    return machine


def row(market: Market, machine: Machine) -> dict[str, Any]:
    """How it is listed now."""
    return instance_row(machine, market_s=market.clock.market(), wall_s=market.clock.wall())
