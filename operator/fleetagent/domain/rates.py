"""What measured machines tell of those to come: this very host first, else measured machines like it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from statistics import fmean, median
from typing import TypeAlias

from fleetagent.domain.fleet import Offer

HostKey: TypeAlias = tuple[str, str, int]
"""A host as we rent it: machine id, GPU name, number of GPUs."""

KindKey: TypeAlias = tuple[str, int, int]
"""Machines alike: GPU name, number of GPUs, RAM class."""

MOST_PER_GPU = 500.0
"""Proofs per hour that no GPU makes: the fastest that was ever measured needs 18 s for one, which is 200."""
MOST_GPUS = 32
"""More than any machine has."""
LAST_RATES = 5
"""How many of a host's benchmarks say what to expect of it: hosts change."""
RATE_LIFE = timedelta(days=30)
"""After that without a benchmark a host's old ones tell nothing of it any more."""
KIND_LIFE = timedelta(days=3)
"""After that a benchmark speaks for its own host alone: of a kind that nobody rents for it, none would ever be measured
again, and a bad image or a few bad hosts would keep it out for as long as hosts are remembered."""
HOSTS_ALIKE = 3
"""Measured hosts of a kind that it takes to speak for others: with fewer, one odd host would."""

RAM_CLASSES_GB = (0, 128, 256, 384, 512, 768)
"""Where classes begin: at the sizes that were measured."""


def believable(rate: float | None, num_gpus: int) -> bool:
    """Whether a machine with so many GPUs may make that: a worker's word is a stranger's word."""
    most = MOST_PER_GPU * min(max(1, num_gpus), MOST_GPUS)
    return rate is not None and math.isfinite(rate) and 0 < rate <= most


def ram_class(ram_gb: float) -> int:
    """The largest class, in GB, that this much memory fills; 0 for what is no size."""
    return max((least for least in RAM_CLASSES_GB if ram_gb >= least), default=0)


def rate_of_host(rates: Iterable[float], num_gpus: int) -> float | None:
    """The mean of a host's last benchmarks, oldest first; what nobody can believe is left out."""
    last = [rate for rate in rates if believable(rate, num_gpus)][-LAST_RATES:]
    return fmean(last) if last else None


def rates_of_kinds(hosts: Iterable[tuple[HostKey, float | None, float]]) -> dict[KindKey, float]:
    """What machines of a kind make, from (host, its RAM in GB, its rate), each host once however often it was measured.

    It is the median, so that one odd host counts little.
    """
    found: defaultdict[KindKey, list[float]] = defaultdict(list)
    for (_, gpu_name, num_gpus), ram_gb, rate in hosts:
        if ram_gb is not None:
            found[gpu_name, num_gpus, ram_class(ram_gb)].append(rate)
    return {kind: median(rates) for kind, rates in found.items() if len(rates) >= HOSTS_ALIKE}


def with_history(offer: Offer, host_rates: Mapping[HostKey, float], kind_rates: Mapping[KindKey, float]) -> Offer:
    """The offer, and what was measured on this host before, else on machines like it."""
    known = host_rates.get((offer.machine_id, offer.gpu_name, offer.num_gpus))
    if known is None:
        known = kind_rates.get((offer.gpu_name, offer.num_gpus, ram_class(offer.cpu_ram_gb)))
    return replace(offer, measured_rate=known)
