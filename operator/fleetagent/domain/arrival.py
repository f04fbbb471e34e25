"""How long it takes until a machine proves: loading, fetching parameters, the benchmark."""

import math
from datetime import datetime

from fleetagent.domain.fleet import Instance, Phase

LOADING_MIN = 8.0
"""From the order to the worker's first call: half a minute with a cached image, many with a slow pull."""
PARAMETERS_GB = 50.0
"""47 GiB of parameters for PoRep."""
BENCHMARK_MIN = 34.0
"""Twelve proofs, with warm-up and restart."""
SLOWEST_MBPS, USUAL_MBPS = 10.0, 500.0


def fetching_min(download_mbps: float) -> float:
    """Minutes to fetch the parameters; a rate that is no rate counts as a usual one."""
    usable = math.isfinite(download_mbps) and download_mbps > 0
    return PARAMETERS_GB * 8_000 / (max(download_mbps, SLOWEST_MBPS) if usable else USUAL_MBPS) / 60


def minutes_to_prove(download_mbps: float) -> float:
    """From the order to the first proof, as it usually goes."""
    return LOADING_MIN + fetching_min(download_mbps) + BENCHMARK_MIN


def minutes_left(instance: Instance, now: datetime) -> float:
    """Until a machine on its way proves, as it usually goes; 0 for all others and for those that are late."""
    stages = {
        Phase.REQUESTED: (LOADING_MIN, fetching_min(USUAL_MBPS) + BENCHMARK_MIN),
        Phase.LOADING: (LOADING_MIN, fetching_min(USUAL_MBPS) + BENCHMARK_MIN),
        Phase.REGISTERED: (fetching_min(USUAL_MBPS), BENCHMARK_MIN),
        Phase.BENCHMARKING: (BENCHMARK_MIN, 0.0),
    }
    this_one, later = stages.get(instance.phase, (0.0, 0.0))
    passed = (now - instance.phase_since).total_seconds() / 60
    return max(0.0, this_one - max(0.0, passed)) + later
