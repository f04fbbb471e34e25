"""The population of hosts: what is for rent, drawn once from the seed.

Some hosts pass the example filter of the docs (RTX 5090 or 4090, 240 GB of memory, 25 cores, 250 GB of disk, 100 Mb/s,
CUDA 13.0, reliability 0.97, verified, at most 0.90 USD/h all-in with 250 GB); each of the others misses it by at least
one property.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from fleetagent.sim.marketplace.catalog import CPUS, EXAMPLE_GPUS, OTHER_GPUS, PLACES, RTX_4090, Gpu, expected_rate
from fleetagent.sim.marketplace.draws import Draws, lognormal

DAY_S = 86_400
HOURS_PER_MONTH = 720
EXAMPLE_DISK_GB = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine for rent, or a share of it; `usd_per_hour` is its price before any drift, without storage."""

    ask_id: int
    machine_id: int
    host_id: int
    gpu: Gpu
    num_gpus: int
    gpu_frac: float
    cpu_name: str
    machine_ram_mb: int
    machine_cores: int
    cores_known: bool
    disk_gb: float
    disk_mbs: float
    down_mbps: float
    up_mbps: float
    usd_per_gb_down: float
    usd_per_gb_up: float
    usd_per_hour: float
    storage_usd_per_gb_month: float
    reliability: float
    verification: str
    cuda: float
    driver: int
    place: str
    country: str
    static_ip: bool
    ports: int
    longest_s: int
    phase: float
    """Where in an hour its price moves, 0 to 1."""

    @property
    def cores(self) -> float:
        """The cores of this offer's share."""
        return round(self.machine_cores * self.gpu_frac, 1)

    @property
    def ram_gib(self) -> float:
        """The memory of this offer's share."""
        return self.machine_ram_mb * self.gpu_frac / 1024

    @property
    def expected_rate(self) -> float:
        """Proofs per hour that such hardware makes typically."""
        return expected_rate(self.gpu, self.num_gpus, self.ram_gib, self.cores)


def population(draws: Draws, passing: int) -> tuple[Host, ...]:
    """So many hosts that pass the example filter, and half as many again that do not."""
    good = [_passing(draws, n) for n in range(passing)]
    bad = [_missing(draws, passing + n) for n in range(passing + passing // 2)]
    return (*good, *bad)


def _passing(draws: Draws, n: int) -> Host:
    source = draws.of("host", n)
    gpu = source.choice(EXAMPLE_GPUS)
    num_gpus = 2 if gpu is RTX_4090 and source.random() < 0.08 else 1
    # A share of a large machine passes by the machine's memory, and is weak by its own.
    shared = num_gpus == 1 and source.random() < 0.12
    frac = 0.25 if shared else 1.0
    ram_gib = source.choice((512, 768)) if shared or num_gpus > 1 else source.choice((256, 256, 384, 512, 512, 768))
    cores = 128 if shared or num_gpus > 1 else source.choice((32, 48, 64, 64, 96))
    storage = round(source.uniform(0.10, 0.20), 3)
    typical = gpu.usd_centre * num_gpus * (1 + 0.12 * (ram_gib * frac - 256) / 256)
    ceiling = source.uniform(0.74, 0.85) - storage * EXAMPLE_DISK_GB / HOURS_PER_MONTH
    price = min(ceiling, max(0.17, lognormal(source, typical, 0.28)))
    return _host(
        draws, n, source, gpu, num_gpus=num_gpus, frac=frac, ram_gib=ram_gib, cores=cores, price=price, storage=storage
    )


def _missing(draws: Draws, n: int) -> Host:
    source = draws.of("host", n)
    by_gpu_alone = n % 3 == 0
    gpu = source.choice(OTHER_GPUS if by_gpu_alone else EXAMPLE_GPUS)
    num_gpus = source.choice((1, 1, 1, 2, 4)) if by_gpu_alone else 1
    ram_gib, cores = source.choice((256, 384, 512)), source.choice((32, 64, 96))
    price = lognormal(source, gpu.usd_centre * num_gpus, 0.3)
    storage = round(source.uniform(0.10, 0.20), 3)
    host = _host(
        draws, n, source, gpu, num_gpus=num_gpus, frac=1.0, ram_gib=ram_gib, cores=cores, price=price, storage=storage
    )
    return host if by_gpu_alone else source.choice(_FLAWS)(host, source)


_FLAWS: tuple[Callable[[Host, Random], Host], ...] = (
    lambda host, source: replace(host, machine_ram_mb=source.choice((64_205, 96_412, 128_661, 193_100))),
    lambda host, source: replace(host, machine_cores=source.choice((8, 12, 16, 24))),
    lambda host, source: replace(
        host, cuda=source.choice((12.2, 12.4, 12.8)), driver=source.choice((535_086_005, 560_035_003))
    ),
    lambda host, source: replace(host, reliability=round(source.uniform(0.6, 0.965), 4)),
    lambda host, source: replace(
        host,
        verification=source.choice(("unverified", "deverified")),
        reliability=round(source.uniform(0.6, 0.99), 4),
        usd_per_hour=round(host.usd_per_hour * 0.55, 4),
    ),
    lambda host, source: replace(host, down_mbps=round(source.uniform(8, 95), 1)),
    lambda host, source: replace(host, disk_gb=round(source.uniform(30, 240), 1)),
    lambda host, source: replace(host, usd_per_hour=round(source.uniform(0.95, 2.4), 4)),
)


def _host(
    draws: Draws,
    n: int,
    source: Random,
    gpu: Gpu,
    *,
    num_gpus: int,
    frac: float,
    ram_gib: int,
    cores: int,
    price: float,
    storage: float,
) -> Host:
    """Everything else about a host is drawn alike, good or bad."""
    place, country = source.choice(PLACES)
    return Host(
        ask_id=draws.of("ask").randrange(41_000_000, 42_000_000) + n * 13,
        machine_id=21_000 + n * 7,
        host_id=60_000 + n // 3,  # one owner has many machines
        gpu=gpu,
        num_gpus=num_gpus,
        gpu_frac=frac,
        cpu_name=source.choice(CPUS),
        machine_ram_mb=ram_gib * 1024 - source.randrange(600, 6_000),
        machine_cores=cores,
        cores_known=source.random() > 0.05,
        disk_gb=round(source.uniform(300, 3_000), 1),
        disk_mbs=round(source.uniform(800, 6_500), 1),
        down_mbps=round(min(9_800.0, max(110.0, lognormal(source, 850, 0.8))), 1),
        up_mbps=round(min(9_800.0, max(50.0, lognormal(source, 600, 0.8))), 1),
        usd_per_gb_down=round(source.choice((0.0, 0.001, 0.003, 0.01)), 4),
        usd_per_gb_up=round(source.choice((0.0, 0.003, 0.01, 0.05)), 4),
        usd_per_hour=round(price, 4),
        storage_usd_per_gb_month=storage,
        reliability=round(source.uniform(0.971, 0.9995), 4),
        verification="verified",
        cuda=source.choice((13.0, 13.0, 13.1)),
        driver=source.choice((580_065_006, 580_095_005, 590_044_001)),
        place=place,
        country=country,
        static_ip=source.random() < 0.4,
        ports=source.choice((0, 16, 99, 249)),
        longest_s=source.randrange(10 * DAY_S, 180 * DAY_S),
        phase=source.random(),
    )
