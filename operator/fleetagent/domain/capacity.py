"""Proofs per hour: expected, measured, projected; and what to do about a shortfall.

Host RAM and cores decide more than the GPU, so an expected rate needs both.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import ON_THE_WAY, Fleet, Instance, MarketStatus, Offer, Phase

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


def expected_rate(gpu_name: str, num_gpus: int, cpu_ram_gb: float, cpu_cores: float) -> float:
    """Proofs per hour to expect of such a machine, before anybody has measured it."""
    cores = min(1.0, max(0.4, cpu_cores / 64)) if cpu_cores > 0 else 0.4
    per_gpu = min(GPU_CAP.get(gpu_name, UNKNOWN_GPU_CAP), _ram_cap(cpu_ram_gb) * cores)
    return round(per_gpu * (1 + FURTHER_GPU * (max(1, num_gpus) - 1)), 1)


def _ram_cap(ram_gb: float) -> float:
    for (low_gb, low), (high_gb, high) in itertools.pairwise(RAM_CAP):
        if ram_gb <= high_gb:
            return low + (high - low) * (ram_gb - low_gb) / (high_gb - low_gb)
    return RAM_CAP[-1][1]


def offer_rate(offer: Offer) -> float:
    """Proofs per hour to expect of this offer: what this very machine made before, else what such machines make."""
    if offer.measured_rate is not None:
        return round(offer.measured_rate, 1)
    return expected_rate(offer.gpu_name, offer.num_gpus, offer.cpu_ram_gb, offer.cpu_cores)


def capacity(instance: Instance) -> float:
    """What one instance counts for: its measured rate, or its expected one times the chance that it gets there."""
    if instance.failure is not None:
        return 0.0
    if instance.market_status in {MarketStatus.UNKNOWN, MarketStatus.OFFLINE, MarketStatus.STOPPED}:
        return 0.0
    if instance.phase is Phase.PROVING:
        return instance.measured_rate if instance.measured_rate is not None else instance.expected_rate
    return instance.expected_rate * CHANCE.get(instance.phase, 0.0)


def usd_per_proof(offer: Offer) -> Decimal:
    """What one proof is expected to cost on this offer."""
    rate = offer_rate(offer)
    return offer.usd_per_hour / Decimal(str(rate)) if rate > 0 else Decimal("Infinity")


@dataclass(frozen=True, slots=True)
class Capacity:
    """The fleet in proofs per hour: what proves now, and what will."""

    proofs_per_hour: float
    projected_proofs_per_hour: float
    proving: int
    on_the_way: int
    stopping: int

    @property
    def lasting(self) -> int:
        """All that is not about to go."""
        return self.proving + self.on_the_way

    @property
    def instances(self) -> int:
        """All that may bill."""
        return self.lasting + self.stopping


def capacity_of(fleet: Fleet) -> Capacity:
    """Each instance counts once."""
    proving = fleet.in_phase(Phase.PROVING)
    now = sum(capacity(i) for i in proving)
    return Capacity(
        proofs_per_hour=round(now, 1),
        projected_proofs_per_hour=round(now + sum(capacity(i) for i in fleet.in_phase(*ON_THE_WAY)), 1),
        proving=len(proving),
        on_the_way=len(fleet.in_phase(*ON_THE_WAY)),
        stopping=len(fleet.in_phase(Phase.STOPPING)),
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


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of a plan."""

    offer: Offer
    expected_rate: float


def choose(
    offers: Iterable[Offer], *, shortfall: float, at_least: int, at_most: int, usd_per_hour_left: Decimal
) -> tuple[Step, ...]:
    """The launches that close a shortfall for the least money per proof, without a last one that is far too big.

    Greedy by price per proof; when what is left fits one machine, the cheapest machine that covers it is taken.
    `at_least` launches even without a shortfall (the floor of instances).
    """
    left = [Step(o, offer_rate(o)) for o in offers]
    left = sorted((s for s in left if s.expected_rate > 0), key=lambda s: (usd_per_proof(s.offer), s.offer.offer_id))
    chosen: list[Step] = []
    covered = 0.0
    arrives = CHANCE[Phase.REQUESTED]
    while len(chosen) < at_most and (covered < shortfall or len(chosen) < at_least):
        affordable = [s for s in left if s.offer.usd_per_hour <= usd_per_hour_left]
        if not affordable:
            break
        enough = [s for s in affordable if s.expected_rate * arrives >= shortfall - covered]
        step = min(enough, key=lambda s: s.offer.usd_per_hour) if enough else affordable[0]
        chosen.append(step)
        left = [s for s in left if s.offer.machine_id != step.offer.machine_id]  # one per host: they fail together
        covered += step.expected_rate * arrives
        usd_per_hour_left -= step.offer.usd_per_hour
    return tuple(chosen)
