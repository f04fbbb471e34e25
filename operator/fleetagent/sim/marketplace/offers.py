"""An offer on the wire: the field names and the units of the real API, traps included."""

from typing import Any

from fleetagent.sim.marketplace.hosts import HOURS_PER_MONTH, Host

Row = dict[str, Any]


def storage_usd_per_hour(host: Host, disk_gb: float) -> float:
    """`storage_cost` is per GB and month of 720 hours."""
    return host.storage_usd_per_gb_month * disk_gb / HOURS_PER_MONTH


def hardware(host: Host) -> Row:
    """What offers and instances both say of a machine: memory in MB, network in Mb/s, disk in GB, prices in $/GB."""
    gpu = host.gpu
    score = round(host.expected_rate * host.reliability / max(host.usd_per_hour, 0.01), 3)
    return {
        "bundle_id": host.machine_id * 10 + host.num_gpus,
        "machine_id": host.machine_id,
        "host_id": host.host_id,
        "gpu_name": gpu.name,
        "num_gpus": host.num_gpus,
        "gpu_frac": host.gpu_frac,
        "gpu_ram": gpu.ram_mb,
        "gpu_arch": gpu.architecture,
        "gpu_mem_bw": gpu.bandwidth_gbs,
        "compute_cap": gpu.compute_cap,
        "cuda_max_good": host.cuda,
        "driver_version": host.driver,
        "total_flops": round(gpu.tflops * host.num_gpus, 2),
        "dlperf": round(gpu.tflops * host.num_gpus * 1.35, 2),
        "score": score,
        "pcie_bw": 24.6,
        "bw_nvlink": 0.0,
        "cpu_name": host.cpu_name,
        "cpu_ram": host.machine_ram_mb,
        "cpu_cores": host.machine_cores if host.cores_known else None,
        "cpu_cores_effective": host.cores,
        "cpu_ghz": 2.45,
        "cpu_arch": "amd64",
        "disk_bw": host.disk_mbs,
        "inet_down": host.down_mbps,
        "inet_up": host.up_mbps,
        "inet_down_cost": host.usd_per_gb_down,
        "inet_up_cost": host.usd_per_gb_up,
        "internet_down_cost_per_tb": round(host.usd_per_gb_down * 1000, 4),
        "internet_up_cost_per_tb": round(host.usd_per_gb_up * 1000, 4),
        "storage_cost": host.storage_usd_per_gb_month,
        "reliability": host.reliability,
        "reliability2": host.reliability,
        "expected_reliability": round(host.reliability * 0.998, 4),
        "verification": host.verification,
        "hosting_type": 1 if host.static_ip else 0,
        "static_ip": host.static_ip,
        "direct_port_count": host.ports,
        "geolocation": host.place,
        "country_code": host.country,
        "external": False,
    }


def offer_row(host: Host, *, usd_per_hour: float, disk_gb: float, bid: bool, wall_s: float) -> Row:
    """One offer of a search; `dph_total` is the GPU price plus storage for `allocated_storage`, and nothing else."""
    min_bid = round(usd_per_hour * 0.4, 4)
    base = min_bid if bid else usd_per_hour
    storage = storage_usd_per_hour(host, disk_gb)
    total = round(base + storage, 6)
    return hardware(host) | {
        "id": host.ask_id,
        "ask_contract_id": host.ask_id,
        "is_bid": bid,
        "min_bid": min_bid,
        "dph_base": base,
        "storage_total_cost": round(storage, 6),
        "dph_total": total,
        "dph_total_adj": total,
        "discounted_dph_total": total,
        "discount_rate": 0.0,
        "gpu_total_ram": host.gpu.ram_mb * host.num_gpus,
        "disk_space": host.disk_gb,
        "duration": float(host.longest_s),
        "end_date": wall_s + host.longest_s,
        "start_date": wall_s,
        "rentable": True,
        "rented": False,
        "vms_enabled": False,
        "public_ipaddr": f"198.51.100.{host.machine_id % 254 + 1}",
        "os_version": "22.04",
        "mobo_name": "ROME2D32GM-2T",
        "logo": "/static/logos/vastai_small2.png",
        "webpage": None,
        "rn": 1,
    }
