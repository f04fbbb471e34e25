import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetagent.sim.marketplace import MarketplaceConfig, RunningMarketplace, running

KEY, OTHER_KEY = "key-a", "key-b"
DEADLINE_S = 20.0
CHEAPEST = {
    "gpu_name": {"eq": "RTX 5090"},
    "allocated_storage": 250,
    "disk_space": {"gte": 250},
    "order": [["dph_total", "asc"]],
}


@dataclass(slots=True)
class Renter:
    """A client of the market that reads nothing into its answers."""

    http: httpx.AsyncClient

    async def offer(self) -> dict[str, Any]:
        response = await self.http.post("/api/v0/bundles/", json=CHEAPEST)
        offer: dict[str, Any] = response.json()["offers"][0]
        return offer

    async def create(self, ask: int | None = None, **changes: Any) -> httpx.Response:
        ask_id = (await self.offer())["id"] if ask is None else ask
        body = {"client_id": "me", "image": "example/prover:1", "disk": 250, "cancel_unavail": True, "label": "fa/x/1"}
        return await self.http.put(f"/api/v0/asks/{ask_id}/", json=body | changes)

    async def rent(self, **changes: Any) -> int:
        response = await self.create(**changes)
        assert response.status_code == 200, response.text
        return int(response.json()["new_contract"])

    async def listing(self, **params: Any) -> dict[str, Any]:
        response = await self.http.get("/api/v1/instances/", params={"limit": 25} | params)
        found: dict[str, Any] = response.json()
        return found

    async def ids(self) -> list[int]:
        return [row["id"] for row in (await self.listing())["instances"]]

    async def one(self, contract: int) -> dict[str, Any] | None:
        response = await self.http.get(f"/api/v0/instances/{contract}/")
        row: dict[str, Any] | None = response.json()["instances"]
        return row

    async def destroy(self, contract: int) -> httpx.Response:
        return await self.http.request("DELETE", f"/api/v0/instances/{contract}/", json={})

    async def faults(self, faults: dict[str, Any]) -> None:
        (await self.http.put("/_sim/faults", json=faults)).raise_for_status()

    async def advance(self, seconds: float) -> None:
        (await self.http.post("/_sim/clock", json={"advance_seconds": seconds})).raise_for_status()

    async def state(self) -> dict[str, Any]:
        state: dict[str, Any] = (await self.http.get("/_sim/state")).json()
        return state

    async def worker(self) -> dict[str, Any]:
        """What the program in the only machine has done."""
        (machine,) = (await self.state())["machines"]
        worker: dict[str, Any] = machine["worker"]
        return worker

    async def worker_is(self, state: str) -> bool:
        return bool((await self.worker())["state"] == state)

    async def worker_met(self, error: str) -> bool:
        return error in ((await self.worker())["last_error"] or "")


@asynccontextmanager
async def a_renter(market: RunningMarketplace, key: str = KEY) -> AsyncIterator[Renter]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=market.url, headers=headers, timeout=10) as http:
        yield Renter(http)


@asynccontextmanager
async def a_market(**changes: Any) -> AsyncIterator[Renter]:
    """A reliable market, and somebody with its first key."""
    settings: dict[str, Any] = {"reliable": True, "api_keys": (KEY, OTHER_KEY)} | changes
    config = MarketplaceConfig(**settings)
    async with running(config) as market, a_renter(market) as renter:
        yield renter


@dataclass(slots=True)
class Operator:
    """Hears workers, as the operator does; answers what `answer` says."""

    url: str = ""
    heard: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answer: Callable[[str, dict[str, Any]], tuple[int, dict[str, Any]]] = lambda _call, _body: (200, {})

    def calls(self) -> list[str]:
        return [call for call, _ in self.heard]


def politely(call: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    match call:
        case "register":
            return 200, {"uuid": f"uuid-of-{body['label']}", "runner_id": 1}
        case "bench-done":
            return 200, {"ok": True, "passed": True}
        case _:
            return 200, {"ok": True}


@asynccontextmanager
async def an_operator(
    answer: Callable[[str, dict[str, Any]], tuple[int, dict[str, Any]]] = politely, port: int = 0
) -> AsyncIterator[Operator]:
    operator = Operator(answer=answer)

    async def hear(request: Request) -> Response:
        call, body = request.path_params["call"], await request.json()
        operator.heard.append((call, body))
        status, said = operator.answer(call, body)
        return JSONResponse(said, status)

    listener = socket.create_server(("127.0.0.1", port))
    operator.url = f"http://127.0.0.1:{listener.getsockname()[1]}/workers/secret"
    app = Starlette(routes=[Route("/workers/secret/{call}", hear, methods=["POST"])])
    server = uvicorn.Server(
        uvicorn.Config(app, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server._serve([listener]))
    try:
        yield operator
    finally:
        server.should_exit = True
        await serving


async def until(happened: Callable[[], Any]) -> None:
    """Wait for a state; a coroutine function may ask a server for it."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            value = happened()
            if await value if asyncio.iscoroutine(value) else value:
                return
            await asyncio.sleep(0.02)


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


async def test_a_machine_runs_its_program_from_register_to_running() -> None:
    async with an_operator() as operator, a_market(time_scale=3600) as renter:
        contract = await renter.rent(env={"FLEETAGENT_URL": operator.url, "MIN_RATE": "42"})
        await until(lambda: operator.calls() == ["register", "param-done", "bench-done", "running"])
        row = await renter.one(contract)
        (machine,) = (await renter.state())["machines"]

        uuid = f"uuid-of-C.{contract}"
        rate = machine["fate"]["rate"]
        assert [body for _, body in operator.heard] == [
            {"label": f"C.{contract}", "min_rate": 42.0},
            {"uuid": uuid},
            {"uuid": uuid, "rate": rate},
            {"uuid": uuid},
        ]
        assert 10 < rate < 160
        assert row is not None
        assert row["actual_status"] == "running"
        await until(lambda: renter.worker_is("proving"))


async def test_a_worker_waits_for_the_benchmark_in_market_time() -> None:
    async with an_operator() as operator, a_market() as renter:
        await renter.rent(env={"FLEETAGENT_URL": operator.url})
        fate = (await renter.state())["machines"][0]["fate"]
        await renter.advance(fate["loading_s"] + 10)
        await until(lambda: renter.worker_is("fetching parameters"))
        await renter.advance(fate["parameters_s"] - 100)
        assert operator.calls() == ["register"]
        await renter.advance(100)
        await until(lambda: renter.worker_is("benchmarking"))
        assert operator.calls() == ["register", "param-done"]
        await renter.advance(fate["benchmark_s"])
        await until(lambda: operator.calls() == ["register", "param-done", "bench-done", "running"])


async def test_a_worker_below_the_minimum_says_no_more() -> None:
    def refuse(call: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return (200, {"ok": True, "passed": False}) if call == "bench-done" else politely(call, body)

    async with an_operator(refuse) as operator, a_market(time_scale=3600) as renter:
        await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await until(lambda: renter.worker_is("too slow"))

        assert operator.calls() == ["register", "param-done", "bench-done"]


async def test_a_worker_tries_again_until_a_broken_operator_is_back() -> None:
    answers = iter([(503, {"error": "starting"}), (500, {"error": "broken"})])

    def broken_at_first(call: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return next(answers, None) or politely(call, body)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with a_market(time_scale=3600) as renter:
        await renter.rent(env={"FLEETAGENT_URL": f"http://127.0.0.1:{port}/workers/secret"})
        await until(lambda: renter.worker_met("ConnectError"))
        async with an_operator(broken_at_first, port) as operator:
            await until(lambda: operator.calls()[-1:] == ["running"])

            assert operator.calls()[:3] == ["register"] * 3


async def test_an_unknown_worker_gives_up() -> None:
    async with (
        an_operator(lambda _call, _body: (404, {"error": "unknown"})) as operator,
        a_market(time_scale=3600) as renter,
    ):
        await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await until(lambda: renter.worker_is("refused"))

        assert operator.calls() == ["register"]


async def test_a_destroyed_machine_falls_silent() -> None:
    async with an_operator() as operator, a_market() as renter:
        contract = await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await renter.advance(600)
        await until(lambda: operator.calls() == ["register"])
        await renter.destroy(contract)
        await renter.advance(100_000)
        other = await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await renter.advance(600)
        await until(lambda: len(operator.calls()) > 1)

        assert operator.heard[-1] == ("register", {"label": f"C.{other}", "min_rate": 0.0})


async def test_a_machine_that_returns_registers_again() -> None:
    async with an_operator() as operator, a_market() as renter:
        contract = await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await renter.advance(600)
        await until(lambda: operator.calls() == ["register"])
        await renter.http.post(f"/_sim/machines/{contract}/offline", json={"seconds": 300})
        row = await renter.one(contract)
        await renter.advance(301)
        await until(lambda: operator.calls() == ["register", "register"])

        assert row is not None
        assert row["actual_status"] == "offline"


async def test_a_machine_without_a_worker_url_runs_idle() -> None:
    async with a_market(time_scale=3600) as renter:
        contract = await renter.rent()

        async def up() -> bool:
            row = await renter.one(contract)
            return row is not None and row["actual_status"] == "running"

        await until(up)
        assert (await renter.state())["machines"][0]["worker"]["calls"] == 0


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ("weak", ["register", "param-done", "bench-done", "running"]),
        ("repeats", ["register"] * 2 + ["param-done"] * 2 + ["bench-done"] * 2 + ["running"] * 2),
    ],
)
async def test_a_worker_can_be_weak_or_say_everything_twice(fault: str, calls: list[str]) -> None:
    async with an_operator() as operator, a_market(time_scale=3600) as renter:
        await renter.faults({"worker": {"kind": fault, "times": 1}})
        await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await until(lambda: operator.calls() == calls)
        (machine,) = (await renter.state())["machines"]

        told = next(body["rate"] for call, body in operator.heard if call == "bench-done")
        assert (told < machine["fate"]["rate"]) == (fault == "weak")


async def test_a_late_worker_reports_after_its_machine_is_gone() -> None:
    async with an_operator() as operator, a_market() as renter:
        await renter.faults({"worker": {"kind": "late", "times": 1}})
        contract = await renter.rent(env={"FLEETAGENT_URL": operator.url})
        await renter.advance(600)
        await until(lambda: renter.worker_is("fetching parameters"))
        await renter.destroy(contract)
        await renter.advance(10_000)
        await until(lambda: renter.worker_is("benchmarking"))
        await renter.advance(10_000)
        await until(lambda: renter.worker_is("proving"))

        assert operator.calls() == ["register", "param-done", "bench-done", "running"]


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
    ],
)
async def test_an_offer_is_gone_in_three_forms(fault: str, status: int, code: str) -> None:
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
        await renter.faults({"read_lag": {"create_seconds": 0.3}})
        contract = await renter.rent()
        before = await renter.ids()
        await until(renter.ids)

        assert before == []
        assert await renter.ids() == [contract]


async def test_rate_limits_answer_in_plain_text_when_they_are_on() -> None:
    async with a_market(rate_limits=True, retry_after=True) as renter:
        first, second = [await renter.http.get("/api/v1/instances/?limit=25") for _ in range(2)]

        assert (first.status_code, second.status_code) == (200, 429)
        assert second.text.startswith("API requests too frequent")
        assert second.headers["retry-after"] == "1"


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


async def test_two_markets_with_one_seed_and_the_same_calls_hold_the_same_machines() -> None:
    seen = []
    for _ in range(2):
        async with a_market(reliable=False, moving=False, seed=11) as renter:
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
