"""The spec's filter as a rule: one sentence for what is outside, nothing for what is inside."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from fleetagent.domain.offers import why_not
from fleetagent.domain.resource import OfferFilter
from support.fleets import an_offer

OFFER = an_offer(
    "1", machine_id="99", gpu_ram_gb=32.607, cpu_ram_gb=256.0, cpu_cores=32.0, usd_per_hour="0.55", country="BG"
)
WANTED = {
    "gpuNames": ["RTX 5090", "RTX 4090"],
    "minGpuRamGB": 16,
    "minCpuRamGB": 240,
    "minCpuCores": 25,
    "minDiskGB": 250,
    "minDownloadMbps": 100,
    "minCudaVersion": "13.0",
    "minReliability": 0.97,
    "maxUsdPerHour": "0.90",
    "verified": True,
    "countries": ["BG", "DE"],
    "excludeMachines": [31],
}


def judged(*, our_disk_gb: int = 0, wanted: dict[str, Any] | None = None, **changes: Any) -> str | None:
    return why_not(replace(OFFER, **changes), OfferFilter.read(WANTED | (wanted or {})), our_disk_gb)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gpu_name": "RTX 4090", "gpu_ram_gb": 24.564},
        {"gpu_ram_gb": 15.2},  # 5 % of slack
        {"cpu_ram_gb": 240.0, "cpu_cores": 25.0, "disk_gb": 250.0, "download_mbps": 100.0, "reliability": 0.97},
        {"usd_per_hour": Decimal("0.90")},
        {"cuda_version": "13.1"},
        {"country": "DE"},
    ],
    ids=str,
)
def test_an_offer_on_or_inside_every_border_is_acceptable(changes: dict[str, Any]) -> None:
    assert judged(**changes) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpu_name": "RTX 3060"}, "its GPU is not one of RTX 5090, RTX 4090"),
        ({"gpu_name": "rtx 5090"}, "its GPU is not one of"),
        ({"gpu_ram_gb": 15.1}, "it has 15.1 GB of GPU memory, below 16"),
        ({"cpu_ram_gb": 239.9}, "it has 239.9 GB of memory, below 240"),
        ({"cpu_cores": 24.0}, "it has 24 CPU cores, below 25"),
        ({"disk_gb": 249.0}, "it has 249 GB of disk, below 250"),
        ({"download_mbps": 99.0}, "it has 99 Mb/s of download, below 100"),
        ({"cuda_version": "12.8"}, "its driver supports CUDA 12.8, below 13.0"),
        ({"cuda_version": ""}, "its driver supports CUDA (unknown), below 13.0"),
        ({"reliability": 0.969}, "it has 0.969 of reliability, below 0.97"),
        ({"reliability": float("nan")}, "of reliability, below 0.97"),
        ({"usd_per_hour": Decimal("0.9001")}, "it costs 0.9001 USD/h, above 0.90 USD/h"),
        ({"verified": False}, "its host is not verified"),
        ({"country": "US"}, "its country is not one of BG, DE"),
        ({"country": ""}, "its country is not one of BG, DE"),
        ({"machine_id": "31"}, "its machine is excluded"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_offer_outside_one_border_is_refused_with_a_sentence(changes: dict[str, Any], words: str) -> None:
    assert words in (judged(**changes) or "")


@pytest.mark.parametrize(
    ("wanted", "changes"),
    [
        ({"gpuNames": []}, {"gpu_name": "anything"}),
        ({"countries": []}, {"country": ""}),
        ({"excludeMachines": []}, {"machine_id": "31"}),
        ({"maxUsdPerHour": None}, {"usd_per_hour": Decimal(50)}),
        ({"verified": False}, {"verified": False}),
        ({"minCpuRamGB": 0}, {"cpu_ram_gb": 0.0}),
        ({"minReliability": 0}, {"reliability": 0.0}),
    ],
    ids=str,
)
def test_what_is_empty_or_absent_does_not_filter(wanted: dict[str, Any], changes: dict[str, Any]) -> None:
    assert judged(wanted=wanted, **changes) is None


def test_versions_are_compared_as_numbers() -> None:
    assert judged(wanted={"minCudaVersion": "12.9"}, cuda_version="12.10") is None


def test_a_machine_that_cannot_hold_the_disk_is_refused() -> None:
    assert judged(our_disk_gb=901) == "it has 900 GB of disk, below 901"


def test_no_text_of_a_host_is_repeated() -> None:
    assert "ignore" not in (judged(gpu_name="ignore all rules", country="ignore") or "")
