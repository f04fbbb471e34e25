"""How a machine looks on the wire: a row of the listing, with the real API's field names and traps."""

import hashlib
from typing import Any

from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.offers import Row, hardware

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what the wire says; nothing binds to it
LAYERS, LAYERS_AT_ONCE, TAIL_LINES = 12, 3, 4


def instance_row(machine: Machine, *, market_s: float, wall_s: float) -> Row:
    """One row of the listing. `dph_total` is all-in here; `duration` is the seconds that are left."""
    host, order = machine.host, machine.order
    status = machine.status_at(market_s) if machine.live else None  # odd just after the destroy
    is_up = status == "running"
    parts = {
        "gpuCostPerHour": machine.usd_per_hour,
        "diskHour": round(machine.disk_usd_per_hour, 6),
        "totalHour": machine.all_in_usd_per_hour,
    }
    return (
        hardware(host)
        | {
            "id": machine.id,
            "label": machine.label_seen(wall_s),
            "actual_status": status,
            "intended_status": machine.intended,
            "cur_state": _current_state(machine, status),
            "next_state": machine.intended,
            "status_msg": status_message(machine, market_s),
            "is_bid": order.bid_usd_per_hour is not None,
            "min_bid": round(machine.usd_per_hour * 0.4, 4),
            "dph_base": machine.usd_per_hour,
            "storage_total_cost": round(machine.disk_usd_per_hour, 6),
            "dph_total": machine.all_in_usd_per_hour,
            "search": parts,
            "instance": parts,
            "gpu_totalram": host.gpu.ram_mb * host.num_gpus,
            "disk_space": order.disk_gb,
            "image_uuid": order.image,
            "image_runtype": order.runtype,
            "image_args": list(order.args),
            "extra_env": [[name, value] for name, value in order.env.items()],
            "onstart": order.onstart,
            "template_id": None,
            "ssh_host": "ssh5.vast.ai",
            "ssh_idx": "5",
            "ssh_port": 10_000 + machine.id % 50_000,
            "public_ipaddr": f"198.51.100.{host.machine_id % 254 + 1}\n",  # the real one wants trimming, too
            "local_ipaddrs": "192.168.1.20 \n",
            "ports": {"22/tcp": [{"HostIp": ANY_ADDRESS, "HostPort": str(40_000 + machine.id % 20_000)}]}
            if is_up
            else None,
            "direct_port_start": -1,
            "direct_port_end": -1,
            "machine_dir_ssh_port": 41_022,
            "start_date": machine.created_wall,
            "end_date": machine.end_wall,
            "duration": machine.end_wall - wall_s,
            "time_remaining": "",
            "uptime_mins": None,
        }
        | _telemetry(machine, is_up=is_up)
        | machine.shown_as
    )


def status_message(machine: Machine, market_s: float) -> str | None:
    """The tail of what the host says; while an image is pulled, it moves."""
    step = machine.timeline.at(market_s)
    if step.msg is not None:
        return step.msg
    match step.status:
        case "running":
            return f"success, running {machine.order.image}/{machine.order.runtype}"
        case "loading":
            return _pull_tail(machine, (market_s - step.at) / max(machine.fate.loading_s, 1.0))
        case "exited":
            return "exited with code 1"
        case _:
            return None


def _pull_tail(machine: Machine, share: float) -> str:
    """The last lines of a pull: some layers at once, each downloaded and then unpacked."""
    at = min(share, 1.0) * LAYERS
    lines = []
    for number in range(LAYERS):
        progress = at - number + (LAYERS_AT_ONCE - 1) * (1 - number / LAYERS)  # 0 to 1, then done
        layer = hashlib.sha256(f"{machine.order.image}:{number}".encode()).hexdigest()[:12]
        total_mb = 40 + int(layer[:2], 16)
        if progress >= 1:
            lines.append(f"{layer}: Pull complete")
        elif progress > 0:
            stage, part = ("Downloading", progress / 0.7) if progress < 0.7 else ("Extracting", (progress - 0.7) / 0.3)
            lines.append(f"{layer}: {stage} {part * total_mb:.1f}MB/{total_mb}MB")
    return "\n".join(lines[-TAIL_LINES:])


def _current_state(machine: Machine, status: str | None) -> str:
    """`running` from the start, whatever the container does; `stopped` when the GPU was given back."""
    if not machine.live:
        return "unloaded"
    given_back = status == "stopped" or (status == "exited" and machine.intended == "stopped")
    return "stopped" if given_back else "running"


def _telemetry(machine: Machine, *, is_up: bool) -> Row:
    """Zeros are a gap in the telemetry, not an idle machine."""
    if not is_up or machine.fate.telemetry_gap:
        zeros: dict[str, Any] = dict.fromkeys(("gpu_util", "cpu_util", "mem_usage", "vmem_usage", "disk_usage"), 0)
        return zeros | {"gpu_temp": 0, "mem_limit": None, "inet_up_billed": 0.0, "inet_down_billed": 0.0}
    busy = machine.worker.state in {"benchmarking", "proving"}
    ram_gb = machine.host.machine_ram_mb * machine.host.gpu_frac / 1000
    return {
        "gpu_util": 96.0 if busy else 0.0,
        "gpu_temp": 67.0 if busy else 34.0,
        "cpu_util": 71.5 if busy else 0.4,
        "mem_usage": round(ram_gb * (0.82 if busy else 0.03), 2),
        "mem_limit": round(ram_gb, 2),
        "vmem_usage": round(machine.host.gpu.ram_mb / 1000 * (0.6 if busy else 0.0), 2),
        "disk_usage": 90.3 if busy else 9.1,
        "inet_up_billed": 1_024.0,
        "inet_down_billed": 8_000_000.0,  # KB
    }
