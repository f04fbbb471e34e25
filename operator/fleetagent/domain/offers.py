"""Whether an offer is inside the spec's filter, by our own reading and not by the market's search.

Markets forget filters and sort by what they please, so every offer is judged here: when it is shown, and again just
before it is rented.
"""

from fleetagent.domain.fleet import Offer
from fleetagent.domain.resource import OfferFilter

GPU_RAM_SLACK = 0.95
"""A card of 24 GB reports a little less or more than 24,000 MB, and with ECC a 48 GB card reports 46,068 MB."""


def why_not(offer: Offer, wanted: OfferFilter, disk_gb: int = 0) -> str | None:
    """Why the offer is outside the filter, or cannot hold a disk of `disk_gb`; None when it is acceptable.

    Sizes are our share of the host, and what is not known counts as too little. No text that a host wrote is repeated.
    """
    return _why_not_the_machine(offer, wanted) or _too_little(offer, wanted, disk_gb) or _too_dear(offer, wanted)


def _why_not_the_machine(offer: Offer, wanted: OfferFilter) -> str | None:
    if wanted.gpu_names and offer.gpu_name not in wanted.gpu_names:
        return f"its GPU is not one of {', '.join(wanted.gpu_names)}"
    if offer.machine_id in {str(machine) for machine in wanted.exclude_machines}:
        return "its machine is excluded"
    if wanted.countries and offer.country not in wanted.countries:
        return f"its country is not one of {', '.join(wanted.countries)}"
    if wanted.verified and not offer.verified:
        return "its host is not verified"
    if _version(offer.cuda_version) < tuple(wanted.min_cuda_version):
        return f"its driver supports CUDA {offer.cuda_version or '(unknown)'}, below {wanted.min_cuda_version}"
    return None


def _too_little(offer: Offer, wanted: OfferFilter, disk_gb: int) -> str | None:
    least = (
        ("GB of GPU memory", offer.gpu_ram_gb, wanted.min_gpu_ram_gb, GPU_RAM_SLACK),
        ("GB of memory", offer.cpu_ram_gb, wanted.min_cpu_ram_gb, 1.0),
        ("CPU cores", offer.cpu_cores, wanted.min_cpu_cores, 1.0),
        ("GB of disk", offer.disk_gb, max(wanted.min_disk_gb, disk_gb), 1.0),
        ("Mb/s of download", offer.download_mbps, wanted.min_download_mbps, 1.0),
        ("of reliability", offer.reliability, float(wanted.min_reliability), 1.0),
    )
    for what, have, need, slack in least:
        if not have >= need * slack:  # written so that NaN is too little as well
            return f"it has {have:g} {what}, below {need:g}"
    return None


def _too_dear(offer: Offer, wanted: OfferFilter) -> str | None:
    if wanted.max_usd_per_hour is None or offer.usd_per_hour <= wanted.max_usd_per_hour:
        return None
    return f"it costs {offer.usd_per_hour:.4f} USD/h, above {wanted.max_usd_per_hour} USD/h"


def _version(text: str) -> tuple[int, ...]:
    """`12.10` is newer than `12.9`; what is no version is older than all."""
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else ()
