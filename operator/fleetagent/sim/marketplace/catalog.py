"""The GPUs, places and processors that the market knows.

Sizes are the real ones; rates and centre prices are ours to choose.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model: `cap` is the most proofs per hour that a single one can make, however good its host."""

    name: str
    ram_mb: int
    usd_centre: float
    cap: float
    compute_cap: int
    bandwidth_gbs: float
    tflops: float
    architecture: str = "nvidia"


RTX_4090 = Gpu("RTX 4090", 24_564, 0.48, 95, 890, 836.0, 81.6)
RTX_5090 = Gpu("RTX 5090", 32_607, 0.60, 120, 1200, 1489.0, 104.8)

EXAMPLE_GPUS = (RTX_4090, RTX_5090)
"""What the example filter of the docs asks for."""

OTHER_GPUS = (
    Gpu("RTX 3090", 24_576, 0.28, 55, 860, 770.0, 35.6),
    Gpu("RTX 5070 Ti", 16_303, 0.22, 95, 1200, 745.0, 43.9),
    Gpu("RTX A5000", 24_564, 0.28, 50, 860, 655.0, 27.8),
    Gpu("RTX 4060 Ti", 16_380, 0.13, 40, 890, 238.0, 22.1),
    Gpu("RTX 4070S Ti", 16_376, 0.18, 80, 890, 560.0, 44.1),
    Gpu("RTX A6000", 49_140, 0.41, 75, 860, 640.0, 38.7),
    Gpu("RTX PRO 6000 WS", 97_887, 1.02, 150, 1200, 1510.0, 125.0),
    Gpu("L40S", 46_068, 0.60, 110, 890, 700.0, 91.6),
    Gpu("A100 SXM4", 81_920, 0.85, 110, 800, 1560.0, 19.5),
    Gpu("H100 SXM", 81_559, 1.95, 150, 900, 2600.0, 66.9),
)

PLACES = (
    ("Dallas, US", "US"),
    (", US", "US"),  # the city may be empty
    ("Quebec, CA", "CA"),
    ("Frankfurt, DE", "DE"),
    ("Prague, CZ", "CZ"),
    ("Oslo, NO", "NO"),
    ("Warsaw, PL", "PL"),
    ("Seoul, KR", "KR"),
    ("Hanoi, VN", "VN"),
    ("Taipei, TW", "TW"),
)

CPUS = (
    "AMD EPYC 7763 64-Core Processor",
    "AMD EPYC 9654 96-Core Processor",
    "Intel(R) Xeon(R) Platinum 8358",
    "AMD EPYC 7532",
)

RAM_CAPS = ((128.0, 24.0), (256.0, 68.0), (384.0, 85.0), (512.0, 95.0))
"""GiB of host memory to the proofs per hour that one GPU can make with them."""


def ram_cap(ram_gib: float) -> float:
    """Proofs per hour that so much memory allows, between the known sizes in proportion."""
    (low, cap), *rest = RAM_CAPS
    if ram_gib <= low:
        return cap * ram_gib / low
    for high, higher_cap in rest:
        if ram_gib <= high:
            return cap + (higher_cap - cap) * (ram_gib - low) / (high - low)
        low, cap = high, higher_cap
    return cap


def expected_rate(gpu: Gpu, num_gpus: int, ram_gib: float, cores: float) -> float:
    """Proofs per hour of a typical machine of this kind: the weaker of GPU and host, each further GPU adds 60 %."""
    host = ram_cap(ram_gib) * min(1.0, max(0.4, cores / 64))
    return min(gpu.cap, host) * (1 + 0.6 * (num_gpus - 1))
