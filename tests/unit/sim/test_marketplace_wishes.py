"""What becomes of a machine that people, other bidders, its host, its contract or an empty account act upon."""

from typing import Any

import pytest

from fleetagent.sim.marketplace.books import set_credit, settle
from fleetagent.sim.marketplace.errors import Refused
from fleetagent.sim.marketplace.fate import decide
from fleetagent.sim.marketplace.hosts import population
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.marketplace.wishes import QUEUED, extend, flap, reboot, recycle, set_state, take_away
from support.simulated import DAY_S, HOUR_S, a_machine, a_market, a_running_machine, row, the_account


def later(market: Market, seconds: float) -> None:
    market.clock.advance(seconds)
    settle(market)


def test_a_start_may_be_queued_and_come_later_unless_it_is_stopped_again() -> None:
    market = a_market()
    account, one, other = the_account(market), a_running_machine(market), a_running_machine(market)
    for machine in (one, other):
        set_state(market, account, machine, "stopped")
        said = set_state(market, account, machine, "running", queued_s=600)
    waiting = row(market, one)
    set_state(market, account, other, "stopped")
    later(market, 700)

    assert said == QUEUED
    assert (waiting["actual_status"] in {"exited", "stopped"}, waiting["intended_status"]) == (True, "running")
    assert row(market, one)["actual_status"] == "running"
    assert row(market, other)["cur_state"] == "stopped"


def test_a_queued_start_bills_the_gpu_from_when_it_happens() -> None:
    market = a_market()
    machine = a_running_machine(market)
    set_state(market, the_account(market), machine, "stopped")
    before = machine.usd_in_market_time(market.clock.market())
    set_state(market, the_account(market), machine, "running", queued_s=HOUR_S)
    later(market, 2 * HOUR_S)
    paid = machine.usd_in_market_time(market.clock.market()) - before

    assert paid == pytest.approx(2 * machine.disk_usd_per_hour + machine.usd_per_hour * (HOUR_S - 25) / HOUR_S)


def test_a_gpu_that_was_given_back_may_be_with_others() -> None:
    market = a_market(reliable=False, moving=True)
    machine = a_machine(market, disk=50)
    set_state(market, the_account(market), machine, "stopped")
    market.rivals.take(machine.host, market.clock.market())

    assert set_state(market, the_account(market), machine, "running") == QUEUED
    assert row(market, machine)["intended_status"] == "running"
    assert row(market, machine)["actual_status"] in {"exited", "stopped"}


@pytest.mark.parametrize(("act", "status"), [(reboot, "rebooting"), (recycle, "recycling")])
def test_a_restart_in_place_keeps_the_gpu_and_bills_it(act: Any, status: str) -> None:
    market = a_market()
    machine = a_running_machine(market)
    before = machine.usd_in_market_time(market.clock.market())
    act(market, machine)
    meanwhile = row(market, machine)
    later(market, HOUR_S)

    assert (meanwhile["actual_status"], meanwhile["cur_state"]) == (status, "running")
    assert row(market, machine)["actual_status"] == "running"
    assert machine.usd_in_market_time(market.clock.market()) - before > 0.9 * machine.all_in_usd_per_hour


def test_an_outbid_machine_is_stopped_and_resumes_by_itself() -> None:
    market = a_market()
    machine = a_running_machine(market, price=0.2)
    take_away(market, machine, "stopped", HOUR_S)
    outbid = row(market, machine)
    later(market, HOUR_S)

    assert (outbid["actual_status"], outbid["cur_state"], outbid["intended_status"]) == (
        "stopped",
        "stopped",
        "running",
    )
    assert outbid["is_bid"] is True
    assert row(market, machine)["actual_status"] == "running"


def test_a_low_bid_is_outbid_more_often_and_a_rental_on_demand_never() -> None:
    market = a_market()
    host = population(market.draws, 60)[0]

    def hours_to_the_first(share: float | None) -> list[float]:
        fates = [decide(market.draws, host, n, image_gb=8, reliable=False, bid_share=share) for n in range(200)]
        return [loss.after_s / HOUR_S for fate in fates for loss in fate.losses[:1] if loss.status == "stopped"]

    low, high = hours_to_the_first(0.4), hours_to_the_first(0.95)
    assert hours_to_the_first(None) == []
    assert sum(low) / len(low) < 0.5 * sum(high) / len(high)


def test_a_machine_can_come_and_go_in_a_steady_rhythm_and_ends_up_running() -> None:
    market = a_market()
    machine = a_running_machine(market)
    flap(market, machine, "offline", every_s=2, times=3)
    seen = []
    for _ in range(7):
        seen.append(row(market, machine)["actual_status"])
        later(market, 2)

    assert seen == ["offline", "running", "offline", "running", "offline", "running", "running"]


def test_an_empty_account_stops_everything_and_its_disks_bill_on() -> None:
    market = a_market(credit_usd=1.0)
    account, machine = the_account(market), a_running_machine(market)
    later(market, 30 * HOUR_S)
    stopped, owed = row(market, machine), market.credit_usd(account)
    later(market, HOUR_S)

    assert (stopped["actual_status"] in {"exited", "stopped"}, stopped["intended_status"]) == (True, "stopped")
    assert market.credit_usd(account) == pytest.approx(owed - machine.disk_usd_per_hour)
    with pytest.raises(Refused) as refusal:
        set_state(market, account, machine, "running")
    assert refusal.value.body["error"] == "insufficient_credit"

    set_credit(market, account, 50.0)
    set_state(market, account, machine, "running")
    later(market, 60)
    assert row(market, machine)["actual_status"] == "running"


def test_the_next_look_at_the_books_is_never_after_the_money_is_gone() -> None:
    market = a_market(credit_usd=3.0)
    for n in range(3):
        a_machine(market, label=f"fa/x/{n}")
    settle(market)
    looks = 0
    while market.credit_usd(the_account(market)) > 0:
        later(market, market.books_due - market.clock.market())
        looks += 1

    assert -0.001 < market.credit_usd(the_account(market)) <= 0
    assert {machine.intended for machine in market.live()} == {"stopped"}
    assert looks < 40


def test_a_contract_that_has_ended_is_stopped_cannot_start_and_is_deleted_two_days_later() -> None:
    market = a_market(credit_usd=100_000)
    machine = a_running_machine(market)
    later(market, machine.host.longest_s)
    ended = row(market, machine)

    assert (ended["actual_status"], ended["intended_status"]) == ("stopped", "stopped")
    with pytest.raises(Refused, match="the contract has ended"):
        set_state(market, the_account(market), machine, "running")
    later(market, 2 * DAY_S)
    assert market.live() == []


def test_an_accepted_price_rise_lengthens_the_contract_and_counts_from_its_old_end_on() -> None:
    market = a_market(credit_usd=100_000)
    machine = a_running_machine(market)
    old, end = machine.usd_per_hour, row(market, machine)["end_date"]
    extend(market, machine, old * 2)
    later(market, machine.host.longest_s / 2)
    before = (machine.usd_per_hour, row(market, machine)["end_date"])
    later(market, machine.host.longest_s)

    assert before == (old, end + machine.host.longest_s)
    assert machine.usd_per_hour == pytest.approx(old * 2, abs=1e-4)
    assert row(market, machine)["actual_status"] == "running"


def test_a_new_price_is_billed_from_when_it_holds() -> None:
    market = a_market()
    machine = a_running_machine(market)
    before = machine.usd_in_market_time(market.clock.market())
    old = machine.all_in_usd_per_hour
    later(market, HOUR_S)
    market.reprice(machine, machine.usd_per_hour + 1)
    later(market, HOUR_S)

    assert machine.usd_in_market_time(market.clock.market()) - before == pytest.approx(2 * old + 1)
    assert row(market, machine)["dph_total"] == pytest.approx(old + 1, abs=1e-6)


def test_a_create_that_takes_effect_later_is_listed_and_billed_from_then_on() -> None:
    market = a_market()
    account = the_account(market)
    offer = market.search({"gpu_name": {"eq": "RTX 4090"}, "order": [["dph_total", "asc"]]})[0]
    machine = market.create(account, offer["id"], {"image": "x", "disk": 250}, late_s=600)
    later(market, 599)
    before = (market.visible(account), machine.usd_in_market_time(market.clock.market()))
    later(market, 1)
    there = market.visible(account)
    later(market, HOUR_S)

    assert before == ([], 0.0)
    assert there == [machine]
    assert machine.usd_in_market_time(market.clock.market()) > 0


def test_just_after_its_destroy_a_machine_is_still_listed_and_odd() -> None:
    market = a_market(faults={"read_lag": {"destroy_seconds": 5}})
    machine = a_running_machine(market)
    market.destroy(the_account(market), machine.id)
    (seen,) = market.visible(the_account(market))

    assert (row(market, seen)["actual_status"], row(market, seen)["cur_state"]) == (None, "unloaded")


def test_a_pull_shows_a_moving_tail_of_layers() -> None:
    market = a_market()
    machine = a_machine(market)
    market.clock.advance(machine.fate.provisioning_s + 2)
    tails = []
    for _ in range(5):
        market.clock.advance(machine.fate.loading_s / 6)
        tails.append(row(market, machine)["status_msg"].splitlines())

    assert len({tuple(tail) for tail in tails}) == 5
    assert all(1 <= len(tail) <= 4 for tail in tails)
    words = {line.split(": ")[1].split()[0] for tail in tails for line in tail}
    assert words == {"Downloading", "Extracting", "Pull"}
    assert all(len(line.split(":")[0]) == 12 for tail in tails for line in tail)
