import asyncio
import json
import signal
import sys

import httpx
import pytest

from fleetagent.sim.marketplace import MarketplaceConfig, running
from support.renter import DEADLINE_S, KEY, OTHER_KEY, a_market, a_renter


async def test_an_offer_is_found_rented_listed_labelled_and_destroyed() -> None:
    async with a_market() as renter:
        offer = await renter.offer()
        contract = await renter.rent(ask=offer["id"])
        (row,) = (await renter.listing())["instances"]
        await renter.http.put(f"/api/v0/instances/{contract}/", json={"label": "another"})
        relabelled = await renter.one(contract)
        destroyed = await renter.destroy(contract)
        again = await renter.destroy(contract)

        assert (row["id"], row["label"], row["intended_status"]) == (contract, "fa/x/1", "running")
        assert row["dph_total"] == pytest.approx(offer["dph_total"], abs=1e-6)
        assert relabelled is not None
        assert relabelled["label"] == "another"
        assert (destroyed.status_code, destroyed.json()) == (200, {"success": True})
        assert again.status_code == 404
        assert again.json()["error"] in {"not_found", "no_such_instance"}
        assert await renter.one(contract) is None
        assert await renter.ids() == []


async def test_a_wrong_key_is_a_404_and_the_key_in_the_query_is_not_taken() -> None:
    async with a_market() as renter:
        wrong = await renter.http.get("/api/v0/users/current/", headers={"Authorization": "Bearer no"})
        query = await renter.http.get(f"/api/v0/users/current/?api_key={KEY}", headers={"Authorization": ""})

        for response in (wrong, query):
            assert (response.status_code, response.json()["error"]) == (404, "auth_error")


async def test_each_key_is_an_account_that_sees_its_own_machines_only() -> None:
    config = MarketplaceConfig(reliable=True, api_keys=(KEY, OTHER_KEY))
    async with running(config) as market, a_renter(market) as mine, a_renter(market, OTHER_KEY) as theirs:
        contract = await mine.rent()
        accounts = [(await renter.http.get("/api/v0/users/current/")).json() for renter in (mine, theirs)]
        foreign = await theirs.destroy(contract)
        label = await theirs.http.put(f"/api/v0/instances/{contract}/", json={"label": "x"})

        assert accounts[0]["id"] != accounts[1]["id"]
        assert accounts[0]["credit"] > 499
        assert (foreign.status_code, label.status_code) == (404, 404)
        assert await theirs.one(contract) is None
        assert await theirs.ids() == []
        assert await mine.ids() == [contract]


async def test_the_old_listing_is_gone() -> None:
    async with a_market() as renter:
        response = await renter.http.get("/api/v0/instances/")

        assert (response.status_code, response.json()["error"]) == (410, "deprecated_endpoint")


async def test_a_listing_of_sixty_is_walked_in_pages_of_twenty_five() -> None:
    async with a_market() as renter:
        made = {(await renter.http.post("/_sim/machines", json={"label": f"m{n}"})).json()["id"] for n in range(60)}
        pages, token = [], None
        while True:
            page = await renter.listing(limit=1000, **({"after_token": token} if token else {}))
            pages.append([row["id"] for row in page["instances"]])
            token = page["next_token"]
            if token is None:
                break
        one = await renter.listing(select_filters=json.dumps({"label": {"eq": "m7"}}))

        assert [len(page) for page in pages] == [25, 25, 10]
        assert {contract for page in pages for contract in page} == made
        assert page["total_instances"] == 60
        assert [row["label"] for row in one["instances"]] == ["m7"]


async def test_state_counts_calls_and_remembers_destroyed_machines() -> None:
    async with a_market() as renter:
        contract = await renter.rent()
        await renter.ids()
        await renter.destroy(contract)
        foreign = (await renter.http.post("/_sim/machines", json={"label": None, "gpu_name": "RTX 3090"})).json()
        state = await renter.state()

        assert {name: n for name, n in state["calls"].items() if n} == {
            "search": 1,
            "create": 1,
            "list": 1,
            "destroy": 1,
        }
        assert (state["created"], state["destroyed"], state["live"], state["most_live"]) == (2, 1, 1, 1)
        assert [m["actual_status"] for m in state["machines"]] == ["destroyed", "running"]
        assert state["machines"][0]["usd"] >= 0
        assert state["machines"][0]["account_id"] == state["accounts"][0]["id"]
        assert (foreign["label"], foreign["gpu_name"]) == (None, "RTX 3090")
        assert await renter.ids() == [foreign["id"]]


async def test_two_markets_with_one_seed_and_the_same_calls_hold_the_same_machines() -> None:
    seen = []
    for _ in range(2):
        async with a_market(reliable=False, seed=11) as renter:
            for n in range(8):
                await renter.create(ask=None if n % 2 else 1)
            state = await renter.state()
            seen.append([(m["id"], m["ask_id"], m["dph_total"], m["fate"]) for m in state["machines"]])

    assert seen[0]
    assert seen[0] == seen[1]


async def test_the_command_says_where_it_listens_and_ends_cleanly_on_sigterm() -> None:
    program = (
        "import argparse, sys; from fleetagent.sim.marketplace import add_arguments, main;"
        "parser = argparse.ArgumentParser(); add_arguments(parser); sys.exit(main(parser.parse_args()))"
    )
    arguments = ["--listen", "127.0.0.1:0", "--seed", "5", "--time-scale", "60", "--api-key", "k", "--reliable"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)).decode()
    url = line.split()[2]
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": "Bearer k"}) as http:
        account = await http.get("/api/v0/users/current/")
    process.send_signal(signal.SIGTERM)

    assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0
    assert line == f"marketplace on {url} (seed 5, 60x)\n"
    assert account.status_code == 200
