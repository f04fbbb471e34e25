"""Rows in the market's units and spelling become sizes and prices in ours."""

from decimal import Decimal
from typing import Any

import pytest

from fleetagent.adapters.vast.parse import offer_in, rented_in
from support.vast import a_machine_row, an_offer_row


def test_an_offer_is_our_share_of_the_host_at_the_all_in_price() -> None:
    offer = offer_in(an_offer_row(), disk_gb=250)

    assert offer
    assert (offer.offer_id, offer.machine_id, offer.gpu_name, offer.num_gpus) == ("4711", "99", "RTX 5090", 1)
    assert (offer.cpu_ram_gb, offer.cpu_cores) == (256.0, 32.0)  # of 1,024 GB and 128 cores
    assert (offer.gpu_ram_gb, offer.disk_gb, offer.download_mbps) == (32.607, 900.5, 812.3)
    assert (offer.cuda_version, offer.reliability, offer.verified, offer.country) == ("13.0", 0.991, True, "BG")
    assert offer.usd_per_hour == Decimal("0.550000")  # 0.5 + 0.144 USD/GB/month for 250 GB, a month being 720 h


@pytest.mark.parametrize(("disk_gb", "price"), [(8, "0.501600"), (250, "0.550000"), (1000, "0.700000")])
def test_the_price_is_for_the_disk_we_ask_for_whatever_the_row_says(disk_gb: int, price: str) -> None:
    offer = offer_in(an_offer_row(dph_total=0.1), disk_gb)

    assert offer
    assert offer.usd_per_hour == Decimal(price)


def test_money_keeps_the_digits_that_were_sent() -> None:
    offer = offer_in(an_offer_row(dph_base=0.1 + 0.2, storage_cost=0.0), disk_gb=250)

    assert offer
    assert offer.usd_per_hour == Decimal("0.3")


@pytest.mark.parametrize(
    "changes",
    [
        {"dph_base": None},
        {"dph_base": float("nan")},
        {"dph_base": "Infinity"},
        {"dph_base": -0.5},
        {"dph_base": 0},
        {"dph_base": True},
        {"storage_cost": None},
        {"storage_cost": "NaN"},
        {"storage_cost": -1},
        {"ask_contract_id": None, "id": None},
        {"ask_contract_id": "../users", "id": "x"},
        {"machine_id": None},
        {"num_gpus": 0},
        {"num_gpus": None},
        {"rentable": False},
        {"rented": True},
        {"is_bid": True},
    ],
    ids=str,
)
def test_an_offer_without_price_or_identity_or_that_is_taken_is_none(changes: dict[str, Any]) -> None:
    assert offer_in(an_offer_row(**changes), 250) is None


@pytest.mark.parametrize(
    ("changes", "ram_gb"),
    [
        ({"cpu_cores": None}, 256.0),  # by its part of the GPUs
        ({"cpu_cores": None, "gpu_frac": None}, 0.0),  # not known is not enough
        ({"cpu_cores_effective": 256.0}, 1024.0),  # never more than all
        ({"cpu_ram": "1024000"}, 256.0),
        ({"cpu_ram": float("inf")}, 0.0),
        ({"cpu_ram": -5}, 0.0),
    ],
    ids=str,
)
def test_our_share_of_the_memory_is_never_guessed_upwards(changes: dict[str, Any], ram_gb: float) -> None:
    offer = offer_in(an_offer_row(**changes), 250)

    assert offer
    assert offer.cpu_ram_gb == ram_gb


@pytest.mark.parametrize(
    ("place", "country"),
    [
        ({"country_code": "bg"}, "BG"),
        ({"country_code": None, "geolocation": "Sofia, BG"}, "BG"),
        ({"country_code": None, "geolocation": ", US"}, "US"),
        ({"country_code": None, "geolocation": "Atlantis"}, ""),
        ({"country_code": None, "geolocation": None}, ""),
        ({"country_code": "</data>"}, ""),
        ({"country_code": 7}, ""),
    ],
)
def test_a_country_is_two_letters_or_not_known(place: dict[str, Any], country: str) -> None:
    offer = offer_in(an_offer_row(**place), 250)

    assert offer
    assert offer.country == country


def test_what_a_host_writes_is_short_and_printable() -> None:
    hostile = "ok\x00\n\ud800\u202eevil</data>" + "x" * 300_000
    machine = rented_in(a_machine_row(status_msg=hostile, gpu_name=hostile, label=hostile), "FLEETAGENT_URL")

    assert machine
    for text in (machine.status_message, machine.gpu_name, machine.label or ""):
        assert text.isprintable()
        assert "<" not in text
        assert len(text) <= 201
        text.encode()


def test_a_label_that_had_to_be_cleaned_never_looks_like_ours() -> None:
    machine = rented_in(a_machine_row(label="fa/abc/1\x00"), "FLEETAGENT_URL")

    assert machine
    assert machine.label == "?fa/abc/1"


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ([["MIN_RATE", "50"], ["FLEETAGENT_URL", "http://w/t"]], "http://w/t"),
        ({"FLEETAGENT_URL": "http://w/t"}, "http://w/t"),
        ([["FLEETAGENT_URL", "http://w/" + "t" * 500]], "http://w/" + "t" * 500),
        ([["FLEETAGENT_URL", "http://w/\x00"]], None),
        ([["FLEETAGENT_URL", "http://w/" + "t" * 5000]], None),
        ([["OTHER", "http://w/t"]], None),
        ([["FLEETAGENT_URL"], "FLEETAGENT_URL", None, [1, 2]], None),
        ("FLEETAGENT_URL=http://w/t", None),
        (None, None),
    ],
)
def test_the_worker_url_is_found_in_the_environment_unchanged_or_not_at_all(env: Any, url: str | None) -> None:
    machine = rented_in(a_machine_row(extra_env=env), "FLEETAGENT_URL")

    assert machine
    assert machine.worker_url == url


@pytest.mark.parametrize(
    "row", [None, [], "x", {}, {"id": None}, {"id": 0}, {"id": True}, {"id": -3}, {"id": "5/../6"}]
)
def test_a_row_that_names_no_machine_is_none(row: Any) -> None:
    assert rented_in(row, "FLEETAGENT_URL") is None


@pytest.mark.parametrize("gpus", [65, 3_000_000_000, 1e307])
def test_a_number_of_gpus_that_no_machine_has_is_not_known(gpus: float) -> None:
    assert offer_in(an_offer_row(num_gpus=gpus), disk_gb=250) is None
    machine = rented_in(a_machine_row(num_gpus=gpus), "FLEETAGENT_URL")
    assert machine is not None
    assert machine.num_gpus == 0


def test_a_size_beyond_all_measure_is_not_known() -> None:
    offer = offer_in(an_offer_row(cpu_ram=1e300, inet_down=1e200), disk_gb=250)
    assert offer is not None
    assert (offer.cpu_ram_gb, offer.download_mbps) == (0, 0)
