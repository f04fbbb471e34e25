"""What `GET /_sim/state` tells: the truth of the market, whatever its API shows.

`usd` counts wall hours, as a client does that multiplies its own hours by the price; `usd_in_market_time` counts the
scaled hours. Both bill the GPU while a machine is active, its disk in every state but offline, and no traffic.
"""

from dataclasses import asdict
from typing import Any

from fleetagent.sim.marketplace.kinds import CALLS
from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.market import Market


def market_state(market: Market) -> dict[str, Any]:
    """Machines (destroyed ones too), calls that got past the key check, counts and the clock."""
    machines = list(market.machines.values())
    live = market.live()
    return {
        "seed": market.config.seed,
        "clock": {
            "market_seconds": market.clock.market(),
            "time_scale": market.clock.time_scale,
            "wall": market.clock.wall(),
        },
        "accounts": [
            {"id": account.id, "credit_usd": round(market.credit_usd(account), 6)} for account in market.accounts
        ],
        "calls": {name: market.calls[name] for name in CALLS},
        "created": len(machines),
        "destroyed": len(machines) - len(live),
        "live": len(live),
        "most_live": market.most_live,
        "usd_per_hour": round(sum(machine.all_in_usd_per_hour for machine in live), 6),
        "machines": [machine_state(market, machine) for machine in machines],
    }


def machine_state(market: Market, machine: Machine) -> dict[str, Any]:
    """One machine; times that end in `_wall` are seconds since 1970, the others market seconds."""
    now = market.clock.market()
    return {
        "id": machine.id,
        "account_id": machine.account_id,
        "label": machine.label,
        "live": machine.live,
        "ask_id": machine.host.ask_id,
        "machine_id": machine.host.machine_id,
        "host_id": machine.host.host_id,
        "gpu_name": machine.host.gpu.name,
        "num_gpus": machine.host.num_gpus,
        "actual_status": machine.status_at(now) if machine.live else "destroyed",
        "intended_status": machine.intended,
        "image": machine.order.image,
        "disk_gb": machine.order.disk_gb,
        "env": machine.order.env,
        "dph_base": machine.usd_per_hour,
        "dph_total": machine.all_in_usd_per_hour,
        "usd": round(machine.usd(now, market.clock.time_scale), 8),
        "usd_in_market_time": round(machine.usd_in_market_time(now), 8),
        "created_at": machine.created_at,
        "created_wall": machine.created_wall,
        "destroyed_at": machine.destroyed_at,
        "destroyed_wall": machine.destroyed_wall,
        "steps": [asdict(step) for step in machine.timeline.steps if step.at <= now],
        "fate": {
            "start": machine.fate.start,
            "loading_s": machine.fate.loading_s,
            "parameters_s": machine.fate.parameters_s,
            "benchmark_s": machine.fate.benchmark_s,
            "rate": machine.fate.rate,
        },
        "worker": asdict(machine.worker),
    }
