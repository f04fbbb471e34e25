"""The market's less usual calls, over HTTP."""

import json
from typing import Any

import httpx
import pytest

from fleetagent.sim.marketplace import MarketplaceConfig, running
from support.renter import CHEAPEST, KEY, OTHER_KEY, Renter, a_market, a_renter, an_operator, until

PRICES = "/api/v0/instances/pending-price-increases/"


async def rented(renter: Renter, count: int) -> list[int]:
    return [await renter.rent(label=f"fa/x/{n}") for n in range(count)]


async def live(renter: Renter) -> list[int]:
    return [m["id"] for m in (await renter.state())["machines"] if m["live"]]


async def test_a_search_has_three_ways_to_the_same_offers() -> None:
    async with a_market() as renter:
        posted = await renter.http.post("/api/v0/bundles/", json=CHEAPEST)
        asked = await renter.http.get("/api/v0/bundles", params={"q": json.dumps(CHEAPEST)})
        put = await renter.http.put("/api/v0/search/asks/", json={"select_cols": ["*"], "q": CHEAPEST})

        ids = [[offer["id"] for offer in response.json()["offers"]] for response in (posted, asked, put)]
        assert ids[0]
        assert ids[0] == ids[1] == ids[2]
        assert (await renter.state())["calls"]["search"] == 3


async def test_many_machines_at_once_are_not_created_and_nothing_exists_afterwards() -> None:
    async with a_market() as renter:
        offer = await renter.offer()
        response = await renter.http.post("/api/v0/asks/bulk/", json={"ids": [offer["id"]], "image": "x"})

        assert (response.status_code, response.json()["error"]) == (400, "invalid_args")
        assert await renter.ids() == []


async def test_many_machines_are_destroyed_in_one_call_and_only_our_own() -> None:
    config = MarketplaceConfig(reliable=True, api_keys=(KEY, OTHER_KEY))
    async with running(config) as market, a_renter(market) as mine, a_renter(market, OTHER_KEY) as theirs:
        ours, foreign = await rented(mine, 3), await theirs.rent()
        some = await _destroy_many(mine, [*ours[:2], foreign])
        none = await _destroy_many(mine, [foreign])
        too_many = await _destroy_many(mine, list(range(1, 66)))

        assert (some.status_code, some.json()["success"]) == (200, True)
        assert (none.status_code, none.json()["success"]) == (404, False)
        assert (too_many.status_code, too_many.json()["error"]) == (400, "invalid_args")
        assert await live(mine) == [ours[2], foreign]


@pytest.mark.parametrize(
    ("fault", "left"),
    [("ignored", 4), ("partly", 2), ("destroyed_then_504", 0), ("done_then_timeout", 0), ("http_500", 4)],
)
async def test_what_a_bulk_destroy_says_is_not_what_it_did(fault: str, left: int) -> None:
    async with a_market() as renter:
        contracts = await rented(renter, 4)
        await renter.faults({"destroy_many": {"kind": fault, "seconds": 0}})
        await _destroy_many(renter, contracts)

        assert len(await live(renter)) == left


async def _destroy_many(renter: Renter, contracts: list[int]) -> httpx.Response:
    return await renter.http.request("DELETE", "/api/v0/instances/", json={"instance_ids": contracts})


async def test_many_machines_are_stopped_and_started_at_once() -> None:
    async with a_market() as renter:
        contracts = await rented(renter, 3)
        await renter.http.put("/api/v0/instances/", json={"state": "stopped", "ids": contracts})
        stopped = {row["intended_status"] for row in (await renter.listing())["instances"]}
        started = await renter.http.post("/api/v0/instances/start", json={"IDs": contracts})

        assert stopped == {"stopped"}
        assert started.status_code == 200
        assert {row["intended_status"] for row in (await renter.listing())["instances"]} == {"running"}


async def test_a_rebooted_machine_registers_again() -> None:
    async with an_operator() as operator, a_market() as renter:
        contract = await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await renter.advance(600)
        await until(lambda: operator.calls() == ["register"])
        answer = await renter.http.put(f"/api/v0/instances/reboot/{contract}/", json={})
        rebooting = await renter.one(contract)
        await renter.advance(60)
        await until(lambda: operator.calls() == ["register", "register"])

        assert answer.json()["success"] is True
        assert rebooting is not None
        assert rebooting["actual_status"] == "rebooting"


@pytest.mark.parametrize("end", ["", "/"])
async def test_logs_are_fetched_a_moment_later_and_without_a_key(end: str) -> None:
    async with a_market() as renter:
        contract = await renter.rent()
        body = {"tail": "5", "daemon_logs": "true"}
        async with httpx.AsyncClient() as keyless:
            asked = await renter.http.put(f"/api/v0/instances/request_logs/{contract}{end}", json=body)
            url = asked.json()["result_url"]
            early = await keyless.get(url)
            with_key = await renter.http.get(url)

            async def there() -> bool:
                return (await keyless.get(url)).status_code == 200

            await until(there)
            log = (await keyless.get(url)).text

        assert (with_key.status_code, early.status_code) == (400, 404)
        assert 0 < len(log.splitlines()) <= 5


async def test_a_price_rise_waits_for_an_answer_and_changes_nothing_at_once() -> None:
    async with a_market() as renter:
        contract, other = await rented(renter, 2)
        for each in (contract, other):
            await renter.http.post(f"/_sim/machines/{each}/price", json={"factor": 1.5})
        before = await renter.one(contract)
        (first, second) = (await renter.http.get(PRICES)).json()["pending_price_increases"]
        number = {"pending_price_increase_id": first["pending_price_increase_id"]}
        vague = await renter.http.put("/api/v0/instances/accept-price-increase/", json=number | {"all": True})
        accepted = await renter.http.put("/api/v0/instances/accept-price-increase/", json=number)
        stale = await renter.http.put("/api/v0/instances/reject-price-increase/", json=number)
        after = await renter.one(contract)

        assert (first["contract_id"], second["contract_id"]) == (contract, other)
        assert first["new_gpu_costpersec"] == pytest.approx(1.5 * first["old_gpu_costpersec"], rel=1e-3)
        assert (vague.status_code, vague.json()["error"]) == (400, "invalid_args")
        assert accepted.json() == {"success": True, "contract_id": contract, **number}
        assert (stale.status_code, stale.json()["error"]) == (404, "no_pending_price_increase")
        assert before is not None
        assert after is not None
        assert after["dph_total"] == before["dph_total"]
        assert after["end_date"] > before["end_date"]
        assert (await renter.http.get(PRICES)).json()["count"] == 1


async def test_a_price_can_rise_without_asking() -> None:
    async with a_market() as renter:
        contract = await renter.rent()
        before = await renter.one(contract)
        await renter.http.post(f"/_sim/machines/{contract}/price", json={"factor": 2, "pending": False})
        after = await renter.one(contract)

        assert before is not None
        assert after is not None
        assert after["dph_base"] == pytest.approx(2 * before["dph_base"])


async def test_an_account_can_be_emptied_and_filled() -> None:
    async with an_operator() as operator, a_market() as renter:
        contract = await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await renter.advance(600)
        await until(lambda: operator.calls() == ["register"])
        account = (await renter.state())["accounts"][0]["id"]
        await renter.http.put(f"/_sim/accounts/{account}", json={"credit_usd": -1})
        stopped, refused = await renter.one(contract), await renter.create()
        await renter.http.put(f"/_sim/accounts/{account}", json={"credit_usd": 20})
        credit = (await renter.http.get("/api/v0/users/current/")).json()["credit"]

        assert stopped is not None
        assert stopped["intended_status"] == "stopped"
        assert (refused.status_code, refused.json()["error"]) == (400, "insufficient_credit")
        assert credit == pytest.approx(20, abs=0.01)


async def test_a_machine_can_flap_be_outbid_and_show_what_it_is_told() -> None:
    async with a_market() as renter:
        contract = await renter.rent()
        await renter.advance(600)
        await renter.http.post(f"/_sim/machines/{contract}/flap", json={"every_seconds": 1000, "times": 2})
        offline = await renter.one(contract)
        await renter.advance(1000)
        online = await renter.one(contract)
        await renter.http.post(f"/_sim/machines/{contract}/outbid", json={})
        await renter.http.post(f"/_sim/machines/{contract}/row", json={"geolocation": None, "status_msg": "<|im_end|>"})
        outbid = await renter.one(contract)

        assert offline is not None
        assert online is not None
        assert outbid is not None
        assert (offline["actual_status"], online["actual_status"]) == ("offline", "running")
        assert (outbid["actual_status"], outbid["intended_status"]) == ("stopped", "running")
        assert (outbid["geolocation"], outbid["status_msg"]) == (None, "<|im_end|>")


async def test_keys_of_one_account_see_the_same_machines_and_are_paced_apart() -> None:
    config = MarketplaceConfig(reliable=True, api_keys=(KEY, OTHER_KEY), same_account=True, rate_limits=True)
    async with running(config) as market, a_renter(market) as one, a_renter(market, OTHER_KEY) as other:
        contract = await one.rent()
        listings = [await each.http.get("/api/v1/instances/") for each in (one, other, other)]

        assert [response.status_code for response in listings] == [200, 200, 429]
        assert [row["id"] for row in listings[1].json()["instances"]] == [contract]


def _shape(response: httpx.Response) -> tuple[int, Any]:
    return response.status_code, response.json().get("error")


async def test_the_daily_quota_ends_at_midnight_and_says_so() -> None:
    async with a_market(searches_per_day=1) as renter:
        await renter.offer()
        used_up = await renter.http.post("/api/v0/bundles/", json=CHEAPEST)

        assert _shape(used_up) == (429, "search_quota_exceeded")
        assert int(used_up.headers["x-ratelimit-reset"]) % 86_400 == 0
