from typing import Any

import pytest

from support.ports import free_port
from support.renter import a_market, an_operator, politely, until


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

    port = free_port()
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
