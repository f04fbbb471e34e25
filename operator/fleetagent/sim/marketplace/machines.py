"""A rented machine: who has it, how it stands at a moment, what it costs, and how it looks on the wire."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from fleetagent.sim.marketplace.fate import Fate
from fleetagent.sim.marketplace.hosts import Host
from fleetagent.sim.marketplace.offers import Row, hardware, storage_usd_per_hour
from fleetagent.sim.marketplace.timeline import RELEASED, Timeline
from fleetagent.sim.workers import WorkerLog

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what the wire says; nothing binds to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the create asked for, after it was checked."""

    image: str
    disk_gb: float
    label: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    onstart: str | None = None
    args: tuple[str, ...] = ()
    runtype: str = "args"
    bid_usd_per_hour: float | None = None
    cancel_unavail: bool = False
    wanted: str = "running"


@dataclass(slots=True, kw_only=True)
class Machine:
    """One contract. Market seconds unless the name says wall."""

    id: int
    account_id: int
    host: Host
    order: Order
    fate: Fate
    usd_per_hour: float
    """The GPU price that was agreed, without storage."""
    label: str | None
    intended: str
    timeline: Timeline
    created_at: float
    created_wall: float
    contract_end: float
    visible_from_wall: float = 0.0
    label_from_wall: float = 0.0
    destroyed_at: float | None = None
    destroyed_wall: float | None = None
    visible_until_wall: float | None = None
    worker: WorkerLog = field(default_factory=WorkerLog)
    """What the program inside has done so far; only `/_sim/state` shows it."""

    @property
    def live(self) -> bool:
        """Whether the contract still exists, and bills."""
        return self.destroyed_at is None

    @property
    def disk_usd_per_hour(self) -> float:
        """Storage for the disk that was asked for."""
        return storage_usd_per_hour(self.host, self.order.disk_gb)

    @property
    def all_in_usd_per_hour(self) -> float:
        """GPU and storage."""
        return round(self.usd_per_hour + self.disk_usd_per_hour, 6)

    def status_at(self, market_s: float) -> str | None:
        """`actual_status`, null while it is being provisioned."""
        return self.timeline.at(market_s).status

    def visible(self, wall_s: float) -> bool:
        """Whether reads show it: they lag behind create and destroy."""
        if wall_s < self.visible_from_wall:
            return False
        return self.visible_until_wall is None or wall_s < self.visible_until_wall

    def usd_in_market_time(self, market_s: float) -> float:
        """The bill so far, if market hours were paid for."""
        until = market_s if self.destroyed_at is None else self.destroyed_at
        return self.timeline.spent(until, gpu_usd_per_hour=self.usd_per_hour, disk_usd_per_hour=self.disk_usd_per_hour)

    def usd(self, market_s: float, time_scale: float) -> float:
        """The bill so far by the wall clock, which is how a client counts: market time ÷ scale."""
        return self.usd_in_market_time(market_s) / time_scale


def status_message(machine: Machine, market_s: float) -> str | None:
    """The tail of what the host says; while an image is pulled, it moves."""
    step = machine.timeline.at(market_s)
    if step.msg is not None:
        return step.msg
    match step.status:
        case "running":
            return f"success, running {machine.order.image}/{machine.order.runtype}"
        case "loading":
            total_mb = 2_000
            done_mb = min(total_mb, int((market_s - step.at) / max(machine.fate.loading_s, 1) * total_mb))
            layer = hashlib.sha256(f"{machine.id}:{done_mb // 200}".encode()).hexdigest()[:12]
            stage = "Pull complete" if done_mb == total_mb else "Extracting" if done_mb % 200 > 150 else "Downloading"
            return f"{layer}: {stage} {done_mb % 200}MB/200MB"
        case "exited":
            return "exited with code 1"
        case _:
            return None


def instance_row(machine: Machine, *, market_s: float, wall_s: float) -> Row:
    """One row of the listing. `dph_total` is all-in here; `duration` is the seconds that are left."""
    host, order = machine.host, machine.order
    status = machine.status_at(market_s)
    is_up = status == "running"
    released = status in RELEASED and machine.intended == "stopped"
    end_wall = machine.created_wall + host.longest_s
    parts = {
        "gpuCostPerHour": machine.usd_per_hour,
        "diskHour": round(machine.disk_usd_per_hour, 6),
        "totalHour": machine.all_in_usd_per_hour,
    }
    return (
        hardware(host)
        | {
            "id": machine.id,
            "label": machine.label if wall_s >= machine.label_from_wall else None,
            "actual_status": status,
            "intended_status": machine.intended,
            "cur_state": "stopped" if released else "running",
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
            "end_date": end_wall,
            "duration": end_wall - wall_s,
            "time_remaining": "",
            "uptime_mins": None,
        }
        | _telemetry(machine, is_up=is_up)
    )


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
