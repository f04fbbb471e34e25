from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from fleetagent.sim.marketplace.draws import Draws
from fleetagent.sim.marketplace.errors import Refused
from fleetagent.sim.marketplace.fate import DEAD, EXITED, OCI_ERROR, OFFLINE, RUNS, STUCK, UNKNOWN, Fate, Loss, decide
from fleetagent.sim.marketplace.hosts import population
from fleetagent.sim.marketplace.timeline import Step, Timeline, planned
from fleetagent.sim.marketplace.wishes import set_state
from support.simulated import AN_ORDER, DAY_S, HOUR_S, WALL, a_machine, a_market, cheapest, row, the_account


def a_fate(**changes: Any) -> Fate:
    fate = Fate(
        start=RUNS,
        provisioning_s=2,
        loading_s=100,
        parameters_s=1_000,
        benchmark_s=1_800,
        rate=60.0,
        losses=(),
        telemetry_gap=False,
        complaint=None,
        create_lag_s=0,
        destroy_lag_s=0,
    )
    return replace(fate, **changes)


def states(timeline: Timeline) -> list[tuple[float, str | None]]:
    return [(step.at, step.status) for step in timeline.steps]


def test_a_machine_is_null_then_created_then_loading_then_running_until_its_contract_ends() -> None:
    timeline = planned(a_fate(), created_at=10, longest_s=DAY_S)

    assert states(timeline) == [
        (10, None),
        (12, "created"),
        (14, "loading"),
        (114, "running"),
        (10 + DAY_S, "stopped"),
    ]


@pytest.mark.parametrize(
    ("start", "last", "msg"),
    [
        (STUCK, "loading", "manifest unknown"),
        (OCI_ERROR, "created", "OCI runtime create failed"),
        (OFFLINE, "offline", None),
        (UNKNOWN, "unknown", None),
        (EXITED, "exited", None),
    ],
)
def test_a_failed_start_never_runs(start: str, last: str, msg: str | None) -> None:
    timeline = planned(a_fate(start=start, complaint=msg), created_at=0, longest_s=DAY_S)

    end = timeline.at(DAY_S * 2)
    assert end.status == last
    assert (msg is None) or (msg in (end.msg or ""))
    assert "running" not in [status for _, status in states(timeline)]


def test_a_lost_machine_is_offline_and_may_return() -> None:
    fate = a_fate(losses=(Loss(after_s=50, away_s=30), Loss(after_s=50, away_s=None)))

    timeline = planned(fate, created_at=0, longest_s=DAY_S)

    assert states(timeline)[3:] == [
        (104, "running"),
        (154, "offline"),
        (184, "running"),
        (234, "offline"),
        (DAY_S, "stopped"),
    ]


def test_the_gpu_is_billed_while_running_and_the_disk_always_but_offline() -> None:
    timeline = Timeline([Step(0, "loading"), Step(3600, "running"), Step(7200, "stopped"), Step(10_800, "offline")])

    usd = [timeline.spent(hours * HOUR_S, gpu_prices=[(0, 1.0)], disk_usd_per_hour=0.1) for hours in (1, 2, 3, 9)]

    assert usd == pytest.approx([0.1, 1.2, 1.3, 1.3])


def test_loading_takes_longer_without_a_cached_image_and_all_spread_stays_in_its_bounds() -> None:
    draws, host = Draws(7), population(Draws(7), 60)[0]
    fates = [decide(draws, host, contract, image_gb=8, reliable=True) for contract in range(400)]

    cached = [fate for fate in fates if fate.loading_s <= 60]
    assert 0.15 < len(cached) / len(fates) < 0.35
    assert all(20 <= fate.loading_s < 600 for fate in fates)
    assert all(28 * 60 <= fate.benchmark_s <= 40 * 60 for fate in fates)
    assert {fate.start for fate in fates} == {RUNS}
    assert len({fate.rate for fate in fates}) == 1


def test_an_unreliable_market_draws_every_kind_of_bad_start_and_more_of_them_on_bad_hosts() -> None:
    draws, host = Draws(7), population(Draws(7), 60)[0]
    starts = {
        reliability: Counter(
            decide(draws, replace(host, reliability=reliability), n, image_gb=8, reliable=False).start
            for n in range(2000)
        )
        for reliability in (0.999, 0.8)
    }

    assert set(starts[0.999]) == {RUNS, STUCK, EXITED, OCI_ERROR, OFFLINE, UNKNOWN, DEAD}
    assert starts[0.999][RUNS] > 1700
    assert starts[0.8][RUNS] < 1200


def test_a_fate_depends_on_seed_and_contract_and_not_on_what_was_drawn_before() -> None:
    host = population(Draws(7), 60)[0]
    fresh = decide(Draws(7), host, 5, image_gb=8, reliable=False)
    used = Draws(7)
    for contract in (9, 1, 5, 4):
        decide(used, host, contract, image_gb=8, reliable=False)

    assert decide(used, host, 5, image_gb=8, reliable=False) == fresh
    assert decide(Draws(8), host, 5, image_gb=8, reliable=False) != fresh


def test_a_rented_offer_disappears_and_comes_back_after_the_destroy() -> None:
    market = a_market()
    offer = cheapest(market)
    machine = market.create(the_account(market), offer["id"], AN_ORDER)

    rented = {each["id"] for each in market.search({"machine_id": {"eq": offer["machine_id"]}})}
    market.destroy(the_account(market), machine.id)

    assert rented == set()
    assert cheapest(market)["id"] == offer["id"]


def test_the_same_offer_bought_twice_is_refused_or_becomes_a_stopped_machine_that_bills_its_disk() -> None:
    market = a_market()
    first = a_machine(market)
    ask = first.host.ask_id

    with pytest.raises(Refused, match=r"no_such_ask|no longer available"):
        market.create(the_account(market), ask, AN_ORDER)
    second = market.create(the_account(market), ask, AN_ORDER | {"cancel_unavail": False})
    market.clock.advance(HOUR_S)

    assert row(market, second)["actual_status"] == "stopped"
    assert row(market, second)["intended_status"] == "stopped"
    assert second.usd_in_market_time(HOUR_S) == pytest.approx(second.disk_usd_per_hour)


def test_an_unreliable_market_loses_some_races_for_an_offer() -> None:
    market = a_market(reliable=False)
    lost = []
    for offer in market.search({}):
        try:
            market.create(the_account(market), offer["id"], AN_ORDER | {"disk": 8})
        except Refused:
            lost.append(offer["id"])
    left = {offer["id"] for ask in lost for offer in market.search({"ask_contract_id": {"eq": ask}})}
    market.clock.advance(2 * HOUR_S)
    back = {offer["id"] for ask in lost for offer in market.search({"ask_contract_id": {"eq": ask}})}

    assert 1 <= len(lost) <= 14
    assert left == set()
    assert back == set(lost)


def test_an_instance_costs_gpu_and_disk_and_its_duration_is_what_is_left() -> None:
    market = a_market()
    machine = a_machine(market)

    seen = row(market, machine)

    assert seen["dph_total"] == pytest.approx(seen["dph_base"] + seen["storage_cost"] * 250 / 720, abs=1e-6)
    assert seen["start_date"] == WALL
    assert seen["duration"] == machine.host.longest_s
    assert seen["gpu_totalram"] == 24_564
    assert (seen["actual_status"], seen["cur_state"], seen["status_msg"], seen["ports"]) == (
        None,
        "running",
        None,
        None,
    )


def test_the_status_message_moves_while_loading_and_ends_with_success() -> None:
    market = a_market()
    machine = a_machine(market)
    market.clock.advance(machine.fate.provisioning_s + 3)
    messages = {row(market, machine)["status_msg"]}
    market.clock.advance(machine.fate.loading_s / 2)
    messages.add(row(market, machine)["status_msg"])
    market.clock.advance(machine.fate.loading_s)
    up = row(market, machine)

    assert len(messages) == 2
    assert (up["actual_status"], up["status_msg"]) == ("running", "success, running example/prover:1/args")
    assert up["ports"]


def test_a_stopped_machine_still_bills_its_disk_and_starts_again() -> None:
    market = a_market()
    machine = a_machine(market)
    market.clock.advance(HOUR_S)
    set_state(market, the_account(market), machine, "stopped")
    at_stop = machine.usd_in_market_time(market.clock.market())
    market.clock.advance(HOUR_S)
    stopped = row(market, machine)
    paid = machine.usd_in_market_time(market.clock.market()) - at_stop
    set_state(market, the_account(market), machine, "running")
    market.clock.advance(60)

    assert stopped["actual_status"] in {"exited", "stopped"}
    assert (stopped["intended_status"], stopped["cur_state"]) == ("stopped", "stopped")
    assert paid == pytest.approx(machine.disk_usd_per_hour)
    assert row(market, machine)["actual_status"] == "running"


def test_the_bill_follows_the_wall_clock_and_market_time_is_told_apart() -> None:
    market = a_market(time_scale=60.0)
    machine = a_machine(market)
    market.clock.advance(HOUR_S)
    now = market.clock.market()

    assert machine.usd_in_market_time(now) == pytest.approx(60 * machine.usd(now, 60.0))
    assert market.credit_usd(the_account(market)) == pytest.approx(500 - machine.usd(now, 60.0))


def test_an_account_without_money_rents_nothing() -> None:
    with pytest.raises(Refused) as refusal:
        a_machine(a_market(credit_usd=0.0))

    assert refusal.value.body["error"] == "insufficient_credit"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"label": "x" * 257}, "label_too_long"),
        ({"label": 7}, "invalid_args"),
        ({"env": "-e A=b"}, "invalid_args"),
        ({"env": {"A": 1}}, "invalid_args"),
        ({"env": {"A": "x" * 257}}, "invalid_args"),
        ({"env": {f"NAME_{n}": "x" * 250 for n in range(130)}}, "invalid_args"),
        ({"disk": 7}, "invalid_args"),
        ({"disk": 1_000_000}, "invalid_args"),
        ({"image": None}, "invalid_args"),
        ({"image": "x" * 1025}, "invalid_args"),
        ({"onstart": "x" * 4000, "args": ["y" * 97]}, "invalid_args"),
        ({"runtype": "shell"}, "invalid_args"),
        ({"price": 0.0001}, "invalid_price"),
        ({"cancel_unavail": "true"}, "invalid_args"),
        ({"target_state": "paused"}, "invalid_args"),
    ],
)
def test_a_create_body_outside_the_rules_is_refused_and_leaves_nothing(change: dict[str, Any], code: str) -> None:
    market = a_market()

    with pytest.raises(Refused) as refusal:
        a_machine(market, **change)

    assert refusal.value.body["error"] == code
    assert not market.machines


def test_a_create_body_exactly_at_the_limits_is_taken() -> None:
    env = {"-p 8000:8000": "1", "A": "x" * 256}

    machine = a_machine(a_market(), label="x" * 256, disk=8, env=env, onstart="x" * 4096)

    assert machine.order.env == env
