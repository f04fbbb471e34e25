"""Each guardrail refuses past its border and lets pass what stands on it; all else of the facts would let it happen."""

from datetime import timedelta
from typing import Any

import pytest

from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.facts import Facts, Launch, Stop
from fleetagent.domain.fleet import Instance, Phase
from fleetagent.domain.guardrails import FIRST, LAST, LAUNCH_RULES, STOP_RULES, check
from support.fleets import NOW, ago, an_instance, an_offer, facts, unknown_fleet

LAUNCH = Launch("7001", "the plan says so")
STOP = Stop("1", "not needed")
UNTIL = "2026-12-01T08:00:00Z"


def machines(count: int, phase: Phase = Phase.PROVING, **changes: Any) -> list[Instance]:
    """So many alike, named 1, 2, 3 and so on."""
    return [an_instance(str(number), phase, **changes) for number in range(1, count + 1)]


def refused(action: Launch | Stop, told: Facts) -> str | None:
    """The code of the refusal."""
    refusal = check(action, told)
    if refusal is not None:
        assert refusal.sentence
    return refusal.code if refusal else None


def test_nothing_speaks_against_a_machine_that_is_needed() -> None:
    assert refused(LAUNCH, facts()) is None


def test_nothing_speaks_against_the_end_of_a_machine_that_is_not_needed() -> None:
    assert refused(STOP, facts(*machines(6))) is None


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (facts(*machines(6), installation_stop="ConfigMap fleetagent-stop exists"), "InstallationStopped"),
        (facts(*machines(6), spec={"mode": "Suspended"}), "Suspended"),
        (facts(*machines(6), fleet=unknown_fleet(*machines(6))), "FleetUnknown"),
        (facts(*machines(6), demand=DemandUnknown("no answer")), "DemandUnknown"),
    ],
)
@pytest.mark.parametrize("action", [LAUNCH, STOP], ids=["launch", "stop"])
def test_nothing_happens_while_it_must_not_or_nobody_knows(action: Launch | Stop, told: Facts, code: str) -> None:
    assert refused(action, told) == code


@pytest.mark.parametrize(("mode", "code"), [("DryRun", "DryRun"), ("Approve", "NeedsApproval")])
def test_every_mode_but_act_refuses_every_effect(mode: str, code: str) -> None:
    assert refused(LAUNCH, facts(spec={"mode": mode})) == code
    assert refused(STOP, facts(*machines(6), spec={"mode": mode})) == code


def test_a_host_that_was_measured_is_judged_by_what_it_makes_and_not_by_what_was_hoped_for() -> None:
    budget = {"budget": {"usdPerProof": "0.008", "fleetUsdPerHour": "9"}}

    assert refused(LAUNCH, facts(offer_now=an_offer(measured_rate=62.5), spec=budget)) is None
    assert refused(LAUNCH, facts(offer_now=an_offer(measured_rate=62.4), spec=budget)) == "TooDearPerProof"


def test_a_dry_run_says_what_act_would_have_refused() -> None:
    assert refused(LAUNCH, facts(offer_now=None, spec={"mode": "DryRun"})) == "OfferGone"


@pytest.mark.parametrize(
    ("directions", "until", "launch", "stop"),
    [
        (["Up"], UNTIL, "Paused", None),
        (["Down"], UNTIL, None, "Paused"),
        (["Up", "Down"], UNTIL, "Paused", "Paused"),
        (["Up", "Down"], "2026-11-29T12:00:00Z", None, None),
    ],
    ids=["up", "down", "both", "it ends by itself"],
)
def test_a_pause_refuses_its_directions(
    directions: list[str], until: str, launch: str | None, stop: str | None
) -> None:
    spec = {"pause": {"until": until, "directions": directions}}

    assert refused(LAUNCH, facts(spec=spec)) == launch
    assert refused(STOP, facts(*machines(6), spec=spec)) == stop


@pytest.mark.parametrize(
    ("told", "code"),
    [
        pytest.param(facts(workers_can_report=False), "NoWorkerURL", id="machines could not report"),
        pytest.param(facts(offers_shown={}), "OfferNotSeen", id="not shown in this run"),
        pytest.param(facts(offer_now=None), "OfferGone", id="gone"),
        pytest.param(facts(offer_now=an_offer(usd_per_hour="0.52")), "OfferDearer", id="two cents dearer"),
        pytest.param(facts(offer_now=an_offer(usd_per_hour="0.51")), None, id="a cent is noise"),
        pytest.param(
            facts(spec={"fleet": {"vast": {"offers": {"countries": ["FR"]}}}}),
            "OfferOutsideFilter",
            id="outside the filter, whatever the market says",
        ),
        pytest.param(
            facts(spec={"fleet": {"vast": {"offers": {"excludeMachines": [7]}}}}, offer_now=an_offer(machine_id="7")),
            "OfferOutsideFilter",
            id="the spec excludes the machine",
        ),
        pytest.param(
            facts(hosts_excluded={"m7001": NOW + timedelta(seconds=1)}), "HostExcluded", id="the host failed lately"
        ),
        pytest.param(facts(hosts_excluded={"m7001": NOW}), None, id="that is over now"),
        pytest.param(facts(an_instance("1", Phase.LOADING, machine_id="m7001")), "HostInUse", id="one starts there"),
        pytest.param(facts(an_instance("1", machine_id="m7001")), None, id="one proves there"),
        pytest.param(facts(*machines(5, measured_rate=97.0)), "OnTarget", id="485 of 500 is on target at 3 %"),
        pytest.param(facts(*machines(5, measured_rate=96.9)), None, id="a little less is not"),
        pytest.param(facts(*machines(6, Phase.REQUESTED)), "OnTarget", id="machines on their way are counted"),
        pytest.param(facts(demand=Demand(active=False)), "OnTarget", id="no work, no machine"),
        pytest.param(
            facts(demand=Demand(active=False), spec={"limits": {"minInstances": 1}}), None, id="but the floor is kept"
        ),
        pytest.param(
            facts(*machines(2), spec={"limits": {"maxInstances": 2}}), "TooManyInstances", id="as many as may be"
        ),
        pytest.param(
            facts(*machines(2, Phase.STOPPING), spec={"limits": {"maxInstances": 2}}),
            "TooManyInstances",
            id="those that stop still bill",
        ),
        pytest.param(facts(*machines(2), spec={"limits": {"maxInstances": 3}}), None, id="room for one more"),
        pytest.param(facts(launches_this_run=2), "LaunchesPerRun", id="the run has made its launches"),
        pytest.param(facts(launches_this_run=1), None, id="the run has one left"),
        pytest.param(facts(launches_last_hour=6), "LaunchesPerHour", id="the hour has seen its launches"),
        pytest.param(facts(launches_last_hour=5), None, id="the hour has one left"),
    ],
)
def test_a_launch_is_refused_past_each_border_and_never_on_it(told: Facts, code: str | None) -> None:
    assert refused(LAUNCH, told) == code


@pytest.mark.parametrize(
    ("bill", "hourly", "code"),
    [("1.50", "2.00", None), ("1.51", "2.00", "OverHourlyBudget"), (None, "0.49", "OverHourlyBudget")],
    ids=["exactly on budget", "a cent over", "not even the first"],
)
def test_a_launch_never_passes_the_hourly_budget(bill: str | None, hourly: str, code: str | None) -> None:
    there = [an_instance("1", usd_per_hour=bill)] if bill else []
    told = facts(*there, spec={"budget": {"fleetUsdPerHour": hourly}})

    assert refused(LAUNCH, told) == code


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.LOADING, Phase.PROVING, Phase.STOPPING])
def test_whatever_may_bill_is_in_the_bill(phase: Phase) -> None:
    told = facts(an_instance(None, phase, usd_per_hour="1.51"), spec={"budget": {"fleetUsdPerHour": "2.00"}})

    assert refused(LAUNCH, told) == "OverHourlyBudget"


@pytest.mark.parametrize(
    ("spent", "code"),
    [("12.00", None), ("12.01", "OverDailyBudget")],
    ids=["spent and both machines until midnight are the budget", "a cent over"],
)
def test_a_launch_never_passes_the_days_budget_if_all_runs_until_midnight(spent: str, code: str | None) -> None:
    spec = {"budget": {"fleetUsdPerDay": "24.00"}}

    assert refused(LAUNCH, facts(an_instance("1"), spec=spec, usd_spent_today=spent)) == code


@pytest.mark.parametrize(
    ("price", "code"),
    [("0.96", None), ("0.97", "TooDearPerProof")],
    ids=["120 proofs/h for 0.96 USD are 0.008 each", "a cent over"],
)
def test_a_proof_never_costs_more_than_it_may(price: str, code: str | None) -> None:
    offer = an_offer(usd_per_hour=price)
    spec = {"budget": {"usdPerProof": "0.008"}}

    assert refused(LAUNCH, facts(offers_shown={"7001": offer}, offer_now=offer, spec=spec)) == code


@pytest.mark.parametrize(("least", "code"), [("120", None), ("120.1", "TooSlow")])
def test_what_has_failed_its_benchmark_is_not_rented_again(least: str, code: str | None) -> None:
    spec = {"fleet": {"vast": {"instance": {"minProofsPerHour": least}}}}

    assert refused(LAUNCH, facts(offer_now=an_offer(measured_rate=120.0), spec=spec)) == code


def test_what_was_never_measured_may_show_in_its_benchmark_what_it_makes() -> None:
    spec = {"fleet": {"vast": {"instance": {"minProofsPerHour": "1000"}}}}

    assert refused(LAUNCH, facts(spec=spec)) is None


def test_a_machine_that_makes_nothing_is_too_dear_at_any_price() -> None:
    offer = an_offer(cpu_ram_gb=0.0, usd_per_hour="0.01")
    spec = {"budget": {"usdPerProof": "1.00"}, "fleet": {"vast": {"offers": {"minCpuRamGB": 0}}}}

    assert refused(LAUNCH, facts(offers_shown={"7001": offer}, offer_now=offer, spec=spec)) == "TooDearPerProof"


@pytest.mark.parametrize(
    ("told", "code"),
    [
        pytest.param(facts(*machines(6)[1:]), "UnknownInstance", id="a machine that is not ours"),
        pytest.param(
            facts(an_instance("1", Phase.STOPPING), *machines(6)[1:]), "SameIntentInFlight", id="it stops already"
        ),
        pytest.param(facts(*machines(6), stops_this_run=2), "StopsPerRun", id="the run has made its stops"),
        pytest.param(facts(*machines(6), stops_this_run=1), None, id="the run has one left"),
        pytest.param(
            facts(*machines(6, requested_at=ago(minutes=29, seconds=59))), "TooYoung", id="a second too young"
        ),
        pytest.param(facts(*machines(6, requested_at=ago(minutes=30))), None, id="just old enough"),
        pytest.param(
            facts(*machines(2), demand=Demand(active=False), spec={"limits": {"minInstances": 2}}),
            "BelowMinInstances",
            id="the floor is kept",
        ),
        pytest.param(
            facts(*machines(3), demand=Demand(active=False), spec={"limits": {"minInstances": 2}}),
            None,
            id="one above the floor may go",
        ),
        pytest.param(
            facts(
                *machines(2),
                an_instance("new", Phase.LOADING, requested_at=ago(minutes=1)),
                demand=Demand(active=False),
                spec={"limits": {"minInstances": 2}},
            ),
            None,
            id="one on its way is one above the floor",
        ),
        pytest.param(facts(*machines(6, measured_rate=96.9)), "BelowTarget", id="484.5 would be left"),
        pytest.param(facts(*machines(6, measured_rate=97.0)), None, id="485 would be left"),
        pytest.param(
            facts(an_instance("1", measured_rate=0.0), *machines(3)[1:]), None, id="what counts for nothing is no loss"
        ),
        pytest.param(
            facts(*machines(6), an_instance("idle", Phase.LOADING)), "IdleCouldGo", id="an idle one could go instead"
        ),
        pytest.param(
            facts(*machines(6), an_instance("idle", Phase.LOADING, requested_at=ago(minutes=1))),
            None,
            id="that one is too young to go",
        ),
        pytest.param(
            facts(*machines(6), an_instance(None, Phase.REQUESTED)), None, id="that one was not seen on the market yet"
        ),
        pytest.param(
            facts(an_instance("1", Phase.LOADING), *machines(6)[1:], an_instance("2nd", Phase.LOADING)),
            None,
            id="an idle one goes although another could",
        ),
    ],
)
def test_a_stop_is_refused_past_each_border_and_never_on_it(told: Facts, code: str | None) -> None:
    assert refused(STOP, told) == code


def test_a_launch_that_nobody_has_seen_cannot_be_stopped_yet() -> None:
    intent = an_instance(None, Phase.REQUESTED)

    assert refused(Stop(intent.label, ""), facts(intent, *machines(6))) == "NotSeenYet"


def test_every_rule_explains_itself() -> None:
    for rule in (*FIRST, *LAUNCH_RULES, *STOP_RULES, *LAST):
        assert (rule.__doc__ or "").startswith(("Refuse", "Hold")), rule
