"""Proofs per hour: expected, measured, projected; and what of it is wanted.

Host RAM and cores decide more than the GPU, so an expected rate needs both.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import ON_THE_WAY, Fleet, Instance, MarketStatus, Offer, Phase
from fleetagent.domain.rates import MOST_GPUS, believable

GPU_CAP: Mapping[str, float] = {
    "RTX 3090": 55,
    "RTX 4090": 95,
    "RTX 5070 Ti": 95,
    "RTX 5090": 120,
    "RTX A5000": 50,
}
"""The most proofs per hour that one GPU makes on a host that keeps it fed."""
UNKNOWN_GPU_CAP = 40.0

RAM_CAP: tuple[tuple[float, float], ...] = ((0, 0), (128, 24), (256, 68), (384, 85), (512, 95), (768, 120))
"""(GB of RAM, most proofs per hour); straight lines in between."""

FURTHER_GPU = 0.6
"""What each GPU after the first adds."""

CHANCE: Mapping[Phase, float] = {
    Phase.REQUESTED: 0.90,
    Phase.LOADING: 0.93,
    Phase.REGISTERED: 0.97,
    Phase.BENCHMARKING: 0.98,
}
"""How likely a machine in this phase gets to prove."""

MAKES_NOTHING = frozenset({MarketStatus.UNKNOWN, MarketStatus.OFFLINE, MarketStatus.STOPPED})
"""What the market says of machines that make nothing now, whatever their phase."""


def expected_rate(gpu_name: str, num_gpus: int, cpu_ram_gb: float, cpu_cores: float) -> float:
    """Proofs per hour to expect of such a machine, before anybody has measured it; sizes that are none count as 0."""
    cores = min(1.0, max(0.4, cpu_cores / 64)) if cpu_cores > 0 else 0.4
    per_gpu = min(GPU_CAP.get(gpu_name, UNKNOWN_GPU_CAP), _ram_cap(cpu_ram_gb) * cores)
    return round(per_gpu * (1 + FURTHER_GPU * (min(max(1, num_gpus), MOST_GPUS) - 1)), 1)


def _ram_cap(ram_gb: float) -> float:
    if not ram_gb > 0:  # written so that NaN is nothing as well
        return 0.0
    for (low_gb, low), (high_gb, high) in itertools.pairwise(RAM_CAP):
        if ram_gb <= high_gb:
            return low + (high - low) * (ram_gb - low_gb) / (high_gb - low_gb)
    return RAM_CAP[-1][1]


def offer_rate(offer: Offer) -> float:
    """Proofs per hour to expect of this offer: what it or machines like it were measured at, else the table."""
    if offer.measured_rate is not None and believable(offer.measured_rate, offer.num_gpus):
        return round(offer.measured_rate, 1)
    return expected_rate(offer.gpu_name, offer.num_gpus, offer.cpu_ram_gb, offer.cpu_cores)


def capacity(instance: Instance) -> float:
    """What one instance counts for: its rate, on its way times the chance that it gets there."""
    if instance.failure is not None:
        return 0.0
    if instance.market_status in MAKES_NOTHING:
        return 0.0
    return _rate(instance) * (1.0 if instance.phase is Phase.PROVING else CHANCE.get(instance.phase, 0.0))


def _rate(instance: Instance) -> float:
    """What it was measured at, after a restart too; else what was expected. What nobody can believe is no capacity."""
    measured, expected, num_gpus = instance.measured_rate, instance.expected_rate, instance.num_gpus
    if measured == 0:
        return 0.0
    if measured is not None and believable(measured, num_gpus):
        return measured
    return expected if believable(expected, num_gpus) else 0.0


def usd_per_proof(offer: Offer) -> Decimal:
    """What one proof is expected to cost on this offer; without end where rate or price is no figure to count with."""
    rate, price = offer_rate(offer), offer.usd_per_hour
    return price / Decimal(str(rate)) if rate > 0 and price.is_finite() else Decimal("Infinity")


@dataclass(frozen=True, slots=True)
class Capacity:
    """The fleet in proofs per hour: what proves now, and what will."""

    proofs_per_hour: float
    projected_proofs_per_hour: float
    proving: int
    on_the_way: int
    stopping: int
    waiting: int = 0
    """Launches that wait for a person: spoken for like machines on their way, but none yet."""

    @property
    def lasting(self) -> int:
        """All that is not about to go."""
        return self.proving + self.on_the_way + self.waiting

    @property
    def instances(self) -> int:
        """All that may bill, or will once it is approved."""
        return self.lasting + self.stopping


def capacity_of(fleet: Fleet) -> Capacity:
    """Each instance counts once, and each launch that waits for a person like one that was just asked for."""
    proving = fleet.in_phase(Phase.PROVING)
    now = sum(capacity(i) for i in proving)
    coming = sum(capacity(i) for i in fleet.in_phase(*ON_THE_WAY))
    rates = (w.proofs_per_hour for w in fleet.launches_waiting)
    coming += sum(rate * CHANCE[Phase.REQUESTED] for rate in rates if believable(rate, MOST_GPUS))
    return Capacity(
        proofs_per_hour=round(now, 1),
        projected_proofs_per_hour=round(now + coming, 1),
        proving=len(proving),
        on_the_way=len(fleet.in_phase(*ON_THE_WAY)),
        stopping=len(fleet.in_phase(Phase.STOPPING)),
        waiting=len(fleet.launches_waiting),
    )


@dataclass(frozen=True, slots=True)
class Target:
    """What to reach, in proofs per hour: hold from `hold_from` up; never fewer than `min_instances` machines."""

    proofs_per_hour: float
    hold_from: Decimal
    min_instances: int

    def met_by(self, capacity: Capacity) -> bool:
        """On target within tolerance, by what proves and what is on its way; the border counts as on target."""
        enough = Decimal(str(capacity.projected_proofs_per_hour)) >= self.hold_from
        return enough and capacity.lasting >= self.min_instances


def effective_target(
    wanted_proofs_per_hour: float, tolerance_percent: float, min_instances: int, demand: Demand | DemandUnknown
) -> Target | None:
    """The target while demand is active, nothing but the floor while it is not, None while demand is unknown."""
    if isinstance(demand, DemandUnknown):
        return None
    wanted = Decimal(str(wanted_proofs_per_hour)) if demand.active else Decimal(0)
    hold_from = wanted * (1 - Decimal(str(tolerance_percent)) / 100)
    return Target(float(wanted), hold_from, min_instances)
