import asyncio
from typing import Any

import httpx
import pytest

from support.renter import CHEAPEST, a_market, until


@pytest.mark.parametrize(
    ("fault", "status", "body"),
    [
        ("http_500", 500, {"success": False, "error": "server_error", "msg": "Internal Server Error"}),
        ("empty_string", 200, ""),
        ("empty_object", 200, {}),
        ("null_instances", 200, {"success": True, "instances": None}),
    ],
)
async def test_a_listing_fails_as_often_as_told_and_then_works(fault: str, status: int, body: Any) -> None:
    async with a_market() as renter:
        contract = await renter.rent()
        await renter.faults({"list": {"kind": fault, "times": 1}})
        failed = await renter.http.get("/api/v1/instances/?limit=25")

        assert (failed.status_code, failed.json()) == (status, body)
        assert await renter.ids() == [contract]


@pytest.mark.parametrize(
    ("fault", "status"), [("html", 502), ("rate_429", 429), ("http_410", 410), ("deprecated_200", 200)]
)
async def test_a_listing_can_be_no_listing_at_all(fault: str, status: int) -> None:
    async with a_market() as renter:
        await renter.faults({"list": fault})
        response = await renter.http.get("/api/v1/instances/?limit=25")

        assert response.status_code == status
        assert "instances_found" not in response.text


async def test_a_half_page_contradicts_its_total_and_a_partial_one_hides_a_machine() -> None:
    async with a_market() as renter:
        made = [(await renter.http.post("/_sim/machines", json={})).json()["id"] for _ in range(4)]
        await renter.faults({"list": [{"kind": kind, "times": 1} for kind in ("half_page", "partial", "empty_list")]})
        half, lacking, empty = [await renter.listing() for _ in range(3)]

        assert (len(half["instances"]), half["total_instances"], half["next_token"]) == (2, 4, None)
        assert ([row["id"] for row in lacking["instances"]], lacking["total_instances"]) == (made[1:], 3)
        assert (empty["instances"], empty["total_instances"]) == ([], 0)
        assert await renter.ids() == made


async def test_a_hanging_call_outlasts_the_client_and_does_not_hold_up_the_end() -> None:
    async with a_market() as renter:
        await renter.faults({"list": "timeout"})
        with pytest.raises(httpx.ReadTimeout):
            await renter.http.get("/api/v1/instances/", timeout=0.3)


@pytest.mark.parametrize(
    ("fault", "status"), [("created_then_504", 504), ("created_then_no_id", 200), ("created_then_error_with_id", 400)]
)
async def test_a_create_takes_effect_though_its_answer_does_not_say_so(fault: str, status: int) -> None:
    async with a_market() as renter:
        await renter.faults({"create": {"kind": fault, "times": 1}})
        response = await renter.create()
        (row,) = (await renter.listing())["instances"]

        assert response.status_code == status
        assert row["label"] == "fa/x/1"
        assert ("new_contract" in response.text) == (fault == "created_then_error_with_id")


async def test_a_create_takes_effect_though_the_connection_breaks() -> None:
    async with a_market() as renter:
        await renter.faults({"create": {"kind": "created_then_reset", "times": 1}})
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await renter.create()

        assert len(await renter.ids()) == 1


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("no_such_ask_404", 404, "invalid_args"),
        ("no_such_ask_410", 410, "no_such_ask"),
        ("no_such_ask_400", 400, "no_such_ask"),
        ("no_such_ask_409", 409, "no_such_ask"),
        ("no_such_ask_200", 200, "no_such_ask"),
    ],
)
async def test_an_offer_is_gone_in_many_forms(fault: str, status: int, code: str) -> None:
    async with a_market() as renter:
        await renter.faults({"create": fault})
        response = await renter.create()

        assert (response.status_code, response.json()["error"]) == (status, code)
        assert "no_such_ask" in response.text
        assert await renter.ids() == []


async def test_a_slow_create_answers_late_and_is_done_at_once() -> None:
    async with a_market() as renter:
        await renter.faults({"create": {"kind": "slow", "seconds": 60, "times": 1}})
        offer = await renter.offer()
        creating = asyncio.create_task(renter.create(ask=offer["id"]))
        await until(renter.ids)

        assert not creating.done()
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating


async def test_a_destroy_can_be_ignored_and_the_machine_bills_on() -> None:
    async with a_market() as renter:
        contract = await renter.rent()
        await renter.faults({"destroy": {"kind": "ignored", "times": 1}})
        ignored = await renter.destroy(contract)

        assert ignored.json() == {"success": True}
        assert await renter.ids() == [contract]
        assert (await renter.state())["live"] == 1


async def test_a_search_can_forget_its_filter() -> None:
    async with a_market() as renter:
        await renter.faults({"search": {"kind": "ignores_filter", "times": 1}})
        forgotten, kept = [
            (await renter.http.post("/api/v0/bundles/", json=CHEAPEST)).json()["offers"] for _ in range(2)
        ]

        assert len({offer["gpu_name"] for offer in forgotten}) > 1
        assert {offer["gpu_name"] for offer in kept} == {"RTX 5090"}


async def test_reads_lag_behind_create_label_and_destroy() -> None:
    async with a_market() as renter:
        await renter.faults({"read_lag": {"create_seconds": 3600, "destroy_seconds": 3600}})
        hidden = await renter.rent()
        await renter.faults({"read_lag": {"destroy_seconds": 3600, "label_seconds": 3600}})
        unlabelled = await renter.rent()
        await renter.destroy(unlabelled)
        (row,) = (await renter.listing())["instances"]

        assert await renter.one(hidden) is None
        assert (row["id"], row["label"]) == (unlabelled, None)
        assert [machine["live"] for machine in (await renter.state())["machines"]] == [True, False]


async def test_a_read_lag_passes_by_itself() -> None:
    async with a_market() as renter:
        await renter.faults({"read_lag": {"create_seconds": 2}})
        contract = await renter.rent()
        before = await renter.ids()
        await until(renter.ids)

        assert before == []
        assert await renter.ids() == [contract]


async def test_rate_limits_answer_in_plain_text_when_they_are_on() -> None:
    async with a_market(rate_limits=True, retry_after=True) as renter:
        both = await asyncio.gather(*(renter.http.get("/api/v1/instances/?limit=25") for _ in range(2)))
        first, second = sorted(both, key=lambda response: response.status_code)

        assert (first.status_code, second.status_code) == (200, 429)
        assert second.text.startswith("API requests too frequent")
        assert second.headers["retry-after"] == "1"


async def test_a_machine_can_be_sent_into_any_state_and_ended_from_outside() -> None:
    async with a_market() as renter:
        contract = await renter.rent()
        await renter.http.post(f"/_sim/machines/{contract}/fail", json={"status": "hibernating", "status_msg": "odd"})
        row = await renter.one(contract)
        await renter.http.post(f"/_sim/machines/{contract}/destroy")
        gone = await renter.http.post(f"/_sim/machines/{contract}/fail")

        assert row is not None
        assert (row["actual_status"], row["status_msg"]) == ("hibernating", "odd")
        assert await renter.one(contract) is None
        assert gone.status_code == 404


async def test_a_bad_fault_is_a_sentence_and_changes_nothing() -> None:
    async with a_market() as renter:
        await renter.faults({"list": "empty_list"})
        bad = await renter.http.put("/_sim/faults", json={"list": "explode"})
        shown = (await renter.http.get("/_sim/faults")).json()
        cleared = (await renter.http.delete("/_sim/faults")).json()

        assert bad.status_code == 400
        assert "list knows no fault 'explode'" in bad.json()["error"]
        assert [switch["kind"] for switch in shown["list"]] == ["empty_list"]
        assert cleared["list"] == []


async def test_a_create_takes_effect_minutes_after_its_answer() -> None:
    async with a_market() as renter:
        await renter.faults({"create": {"kind": "created_late", "seconds": 600, "times": 1}})
        response = await renter.create()
        before = await renter.ids()
        await renter.advance(590)
        still = await renter.ids()
        await renter.advance(10)
        (row,) = (await renter.listing())["instances"]

        assert (response.status_code, before, still) == (504, [], [])
        assert row["label"] == "fa/x/1"


async def test_a_listing_lacks_one_machine_in_every_third_answer_and_says_nothing_of_it() -> None:
    async with a_market() as renter:
        made = [(await renter.http.post("/_sim/machines", json={})).json()["id"] for _ in range(4)]
        await renter.faults({"list": {"kind": "one_missing", "every": 3}})
        seen = [await renter.listing() for _ in range(6)]

        assert [len(page["instances"]) for page in seen] == [4, 4, 3, 4, 4, 3]
        assert [page["total_instances"] for page in seen] == [4, 4, 3, 4, 4, 3]
        assert {row["id"] for page in seen for row in page["instances"]} == set(made)


async def test_one_call_alone_is_refused_for_a_time_in_plain_text() -> None:
    async with a_market() as renter:
        await renter.faults({"list": {"kind": "rate_429", "for_seconds": 3, "retry_after_seconds": 7}})
        refused = await renter.http.get("/api/v1/instances/")
        other = await renter.http.get("/api/v0/users/current/")

        async def over() -> bool:
            return (await renter.http.get("/api/v1/instances/")).status_code == 200

        await until(over)
        assert (refused.status_code, refused.text, refused.headers["retry-after"]) == (
            429,
            "API requests too frequent",
            "7",
        )
        assert refused.headers["content-type"].startswith("text/plain")
        assert other.status_code == 200


@pytest.mark.parametrize(("fault", "live"), [("timeout", 0), ("done_then_timeout", 1)])
async def test_a_call_times_out_before_or_after_its_effect(fault: str, live: int) -> None:
    async with a_market() as renter:
        await renter.faults({"create": {"kind": fault, "seconds": 0.1}})
        response = await renter.create()

        assert response.status_code == 504
        assert (await renter.state())["live"] == live


@pytest.mark.parametrize(("fault", "field"), [("dearer", "dph_base"), ("other_gpu", "gpu_name")])
async def test_a_machine_can_be_another_than_the_one_that_was_ordered(fault: str, field: str) -> None:
    async with a_market() as renter:
        offer = await renter.offer()
        await renter.faults({"create": {"kind": fault}})
        contract = await renter.rent(ask=offer["id"])
        row = await renter.one(contract)

        assert row is not None
        assert row[field] != offer[field]


async def test_offers_can_cost_more_than_a_moment_ago() -> None:
    async with a_market() as renter:
        offer = await renter.offer()
        await renter.faults({"search": "dearer"})
        again = (
            await renter.http.post("/api/v0/bundles/", json=CHEAPEST | {"ask_contract_id": {"eq": offer["id"]}})
        ).json()

        assert again["offers"][0]["dph_base"] == pytest.approx(1.5 * offer["dph_base"], abs=1e-3)


@pytest.mark.parametrize("call", ["search", "list", "show"])
async def test_hosts_can_say_hostile_things_and_numbers_can_be_none(call: str) -> None:
    async with a_market() as renter:
        contract = await renter.rent()
        seen = {}
        for kind in ("hostile", "odd_numbers"):
            await renter.faults({call: kind})
            path = {"search": "/api/v0/bundles", "list": "/api/v1/instances/", "show": f"/api/v0/instances/{contract}/"}
            seen[kind] = (await renter.http.get(path[call])).text

        assert "<|im_start|>" in seen["hostile"]
        assert "NaN" in seen["odd_numbers"]


async def test_every_row_can_show_fields_that_nobody_knows() -> None:
    async with a_market() as renter:
        await renter.rent()
        await renter.faults({"rows": {"offers": {"colour": "red"}, "instances": {"dph_total": None}}})
        (row,) = (await renter.listing())["instances"]

        assert (await renter.offer())["colour"] == "red"
        assert row["dph_total"] is None


async def test_a_changed_label_is_read_late() -> None:
    async with a_market() as renter:
        contract = await renter.rent(label="old")
        await renter.faults({"read_lag": {"label_seconds": 3600}})
        await renter.http.put(f"/api/v0/instances/{contract}/", json={"label": "new"})
        row = await renter.one(contract)

        assert row is not None
        assert row["label"] == "old"
        assert (await renter.state())["machines"][0]["label"] == "new"


@pytest.mark.parametrize(
    ("fault", "status", "start"),
    [
        ("bad_key", 404, '{"success":false,"error":"auth_error"'),
        ("http_403", 403, '{"success":false,"error":"forbidden"'),
        ("html_200", 200, "<!doctype html>"),
        ("truncated", 200, '{"success": true, "instances": [{"id"'),
        ("success_false", 200, '{"success":false'),
        ("rate_429_json", 429, '{"success":false,"error":"rate_limit_exceeded"'),
    ],
)
async def test_any_call_can_be_answered_with_nonsense(fault: str, status: int, start: str) -> None:
    async with a_market() as renter:
        for call, path in (("list", "/api/v1/instances/"), ("account", "/api/v0/users/current/")):
            await renter.faults({call: fault})
            response = await renter.http.get(path)

            assert response.status_code == status
            assert response.text.startswith(start)
