"""vast.ai's own client against our market: what it does not understand, or we do not, would show here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetagent.dev.official_client import find_official_client
from fleetagent.errors import CannotStart
from support.official_client import OfficialClient, packages
from support.servers import MARKET_KEY, Market, a_market

FILTER = "gpu_name in [RTX_5090,RTX_4090] disk_space>=250 cuda_vers>=13.0 cpu_ram>=240 reliability>0.97 inet_down>100"
SEARCH = ("search", "offers", FILTER, "--order", "dph_total", "--storage", 250)
ORDER = ("--image", "example/prover:1", "--disk", 250, "--cancel-unavail", "--ssh", "--direct")


@pytest.fixture
def market() -> Iterator[Market]:
    with a_market(time_scale=60.0) as started:
        yield started


@pytest.fixture
def client(market: Market, tmp_path: Path) -> OfficialClient:
    return OfficialClient(packages(), market.base_url, MARKET_KEY, tmp_path)


def rented(client: OfficialClient, label: str = "fa/x/1", offer: int = 0, *options: object) -> int:
    ask = client.json(*SEARCH)[offer]["id"]
    made = client.json("create", "instance", ask, *ORDER, "--label", label, *options)
    return int(made["new_contract"])


def status(client: OfficialClient, contract: int) -> Any:
    return client.json("show", "instance", contract)["actual_status"]


def test_it_searches_by_both_of_its_ways(client: OfficialClient) -> None:
    offers = client.json(*SEARCH)
    limited = client.json(*SEARCH, "--new", "--limit", 3)

    assert len(offers) > 30
    assert [o["dph_total"] for o in offers] == sorted(o["dph_total"] for o in offers)
    assert {o["gpu_name"] for o in offers} == {"RTX 5090", "RTX 4090"}
    assert all(o["cpu_ram"] >= 240_000 and o["disk_space"] >= 250 and o["cuda_max_good"] >= 13 for o in offers)
    assert [o["id"] for o in limited] == [o["id"] for o in offers[:3]]
    assert "RTX_5090" in client.text(*SEARCH)


def test_it_rents_a_machine_and_sees_what_it_ordered(client: OfficialClient, market: Market) -> None:
    contract = rented(client, "fa/x/1", 0, "--env", "-e MIN_RATE=50 -p 8000:8000")
    (row,) = client.json("show", "instances")
    one = client.json("show", "instance", contract)

    assert (row["id"], row["label"], row["intended_status"]) == (contract, "fa/x/1", "running")
    assert row["extra_env"] == {"MIN_RATE": "50", "-p 8000:8000": "1"}
    assert (row["image_uuid"], row["disk_space"], row["image_runtype"]) == (
        "example/prover:1",
        250.0,
        "ssh_direc ssh_proxy",
    )
    assert {name: one[name] for name in ("id", "label", "dph_total")} == {
        name: row[name] for name in ("id", "label", "dph_total")
    }
    assert "fa/x/1" in client.text("show", "instances")
    assert "example/prover:1" in client.text("show", "instance", contract)
    assert market.get("state")["calls"]["old_list"] == 0


def test_it_labels_stops_starts_and_destroys(client: OfficialClient, market: Market) -> None:
    contract = rented(client)
    market.post("clock", {"advance_seconds": 3600})
    assert status(client, contract) == "running"

    client.text("label", "instance", contract, "another")
    client.text("stop", "instance", contract)
    stopped = client.json("show", "instance", contract)
    assert (stopped["label"], stopped["cur_state"], stopped["intended_status"]) == ("another", "stopped", "stopped")

    client.text("start", "instance", contract)
    market.post("clock", {"advance_seconds": 60})
    assert status(client, contract) == "running"
    client.text("reboot", "instance", contract)
    client.text("recycle", "instance", contract)

    client.text("destroy", "instance", contract, "--yes")
    assert client.json("show", "instances") == []
    assert client.json("show", "instance", contract) == {"instances": None}
    assert market.live() == []


def test_it_reads_logs_without_showing_its_key(client: OfficialClient, market: Market) -> None:
    contract = rented(client)
    market.post("clock", {"advance_seconds": 3600})

    assert "image example/prover:1" in client.text("logs", contract, "--tail", 5)
    assert "success, running example/prover:1" in client.text("logs", contract, "--daemon-logs")


def test_it_walks_through_all_pages_of_a_large_fleet(client: OfficialClient, market: Market) -> None:
    made = {market.post("machines", {"label": f"m{n}"})["id"] for n in range(60)}

    assert {row["id"] for row in client.json("show", "instances")} == made
    assert len(client.json("show", "instances", "--label", "m7")) == 1
    assert set(map(int, client.text("show", "instances", "--quiet").split())) == made
    assert market.get("state")["calls"]["list"] == 7


def test_it_stops_starts_and_destroys_many_at_once(client: OfficialClient, market: Market) -> None:
    contracts = [rented(client, f"fa/x/{n}") for n in range(3)]

    client.text("stop", "instances", *contracts)
    assert {row["intended_status"] for row in client.json("show", "instances")} == {"stopped"}
    client.text("start", "instances", *contracts)
    assert {row["intended_status"] for row in client.json("show", "instances")} == {"running"}
    client.text("destroy", "instances", *contracts[:2], "--yes")

    assert [machine["id"] for machine in market.live()] == contracts[2:]
    assert market.get("state")["calls"]["destroy_many"] == 1


def test_it_sees_and_answers_price_increases(client: OfficialClient, market: Market) -> None:
    first, second = rented(client, "fa/x/1"), rented(client, "fa/x/2")
    for contract in (first, second):
        market.post(f"machines/{contract}/price", {"factor": 1.25})
    pending = client.json("show", "pending-price-increases")

    assert [row["contract_id"] for row in pending["pending_price_increases"]] == [first, second]
    assert str(first) in client.text("show", "pending-price-increases")
    accepted = client.json("accept", "price-increase", first, "--yes")
    rejected = client.json("reject", "price-increase", second, "--yes")
    stale = client.run("accept", "price-increase", first, "--yes")
    assert (accepted["acted"], rejected["acted"]) == (1, 1)
    assert (stale.exit_code, "no longer available" in stale.out) == (2, True)
    assert client.json("show", "pending-price-increases")["count"] == 0


def test_it_sees_the_account(client: OfficialClient, market: Market) -> None:
    account = market.get("state")["accounts"][0]["id"]
    market.put(f"accounts/{account}", {"credit_usd": 12.5})

    assert client.json("show", "user")["id"] == account
    assert client.json("show", "user")["credit"] == pytest.approx(12.5)


def test_it_finds_the_reason_in_our_refusals(client: OfficialClient, market: Market, tmp_path: Path) -> None:
    contract = rented(client)
    ask = market.live()[0]["ask_id"]
    stranger = OfficialClient(client.packages, client.url, "not-a-key", tmp_path)
    market.put("faults", {"search": "quota"})

    assert "no_such_ask" in client.run("create", "instance", ask, *ORDER).err
    assert "Failed with error 404: Invalid user key" in stranger.run("show", "instances").err
    assert "404" in client.run("destroy", "instance", contract + 1, "--yes").err
    assert "Resets at" in client.run(*SEARCH).err
    assert [machine["id"] for machine in market.live()] == [contract]


def test_it_repeats_a_create_that_was_answered_with_504_and_pays_twice(client: OfficialClient, market: Market) -> None:
    """Which is why ours does not. Without `cancel_unavail`, as is its default, the second one exists as well."""
    ask = client.json(*SEARCH)[0]["id"]
    market.put("faults", {"create": {"kind": "created_then_504", "times": 1}})
    client.json("create", "instance", ask, "--image", "example/prover:1", "--disk", 250, "--ssh")

    assert [machine["intended_status"] for machine in market.live()] == ["running", "stopped"]


def test_without_a_package_index_the_reason_is_a_sentence(tmp_path: Path) -> None:
    nowhere = {
        "XDG_CACHE_HOME": str(tmp_path),
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_CACHE_DIR": "1",
    }
    with pytest.raises(CannotStart, match="it comes from the Python package index, which pip must reach"):
        find_official_client(nowhere, progress=lambda _: None)

    assert list(tmp_path.rglob("vastai-*")) == []
