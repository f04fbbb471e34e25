"""Whatever a model asks for, no more happens than the resource allows, and every refusal is on record."""

from decimal import Decimal

import pytest

from support.asking import LOOK, answers, ask, codes, launch, offers, stop
from support.stage import Stage


@pytest.fixture
def shown(stage: Stage) -> list[str]:
    """A run that only looked; the offers that it was shown."""
    stage.start_operator()
    ask(stage, [LOOK], target={"proofsPerHour": 5000})
    return offers(stage)


def test_a_model_that_launches_without_looking_rents_nothing(stage: Stage, shown: list[str]) -> None:
    actions = ask(
        stage,
        [launch(shown[0]), launch("no-such-offer"), launch("'; DROP TABLE instances; --")],
        [{"name": "rent_everything", "arguments": {}}, {"name": "launch_instance", "arguments": '{"offer_id": 12'}],
        [{"name": "launch_instance", "arguments": {"offer": shown[0]}}, {"name": "stop_instance", "arguments": "[]"}],
        [stop("50300001"), stop("fa/"), stop("")],
    )

    assert codes(actions) == ["OfferNotSeen"] * 3 + ["UnknownInstance"] * 2
    assert not any(answer["ok"] for answer in answers(stage))
    assert "There is no tool named 'rent_everything'" in answers(stage)[3]["error"]
    assert stage.market.get("state")["created"] == 0
    assert stage.market.get("state")["calls"]["destroy"] == 0
    assert stage.runs()[-1]["outcome"] == "Refused"
    stage.wait_for(lambda: stage.events("ActionRefused"), "people are told")


def test_twenty_launches_in_one_reply_end_at_the_limits_of_run_and_fleet(stage: Stage, shown: list[str]) -> None:
    greedy = [launch(shown[0]), launch(shown[0]), *(launch(offer) for offer in shown), launch(shown[1])] * 2
    limits = {"launchesPerRun": 3, "launchesPerHour": 30, "maxInstances": 4, "minInstanceAge": "0s"}

    first = ask(stage, [LOOK], greedy[:20], target={"proofsPerHour": 5000}, limits=limits)
    second = ask(stage, [LOOK], list(reversed(greedy))[:20])

    assert codes(first)[:5] == ["done", "OfferGone", "OfferGone", "done", "done"]
    assert set(codes(first)[5:]) == {"LaunchesPerRun"}
    assert codes(second).count("done") == 1
    assert "TooManyInstances" in codes(second)
    assert stage.market.get("state")["most_live"] == 4
    stage.check_books()


def test_money_and_target_refuse_what_a_model_wants_beyond_them(stage: Stage, shown: list[str]) -> None:
    bought = ask(stage, [LOOK], [launch(shown[0])])
    assert codes(bought) == ["done"]
    bill = Decimal(stage.status()["fleet"]["usdPerHour"])

    budget = {"fleetUsdPerHour": f"{bill + Decimal('0.05'):.4f}"}
    over_the_hour = ask(stage, [LOOK], [launch(shown[1])], target={"proofsPerHour": 5000}, budget=budget)
    budget = {"fleetUsdPerHour": "4.00", "fleetUsdPerDay": "0.00"}
    over_the_day = ask(stage, [LOOK], [launch(shown[1])], target={"proofsPerHour": 5000}, budget=budget)
    budget = {"fleetUsdPerHour": "4.00", "usdPerProof": "0.0001"}
    too_dear = ask(stage, [LOOK], [launch(shown[1])], target={"proofsPerHour": 5000}, budget=budget)
    on_target = ask(stage, [LOOK], [launch(shown[1])], target={"proofsPerHour": 40})
    needed = ask(stage, [stop(bought[0]["provider_ref"])], target={"proofsPerHour": 90})
    young = ask(stage, [stop(bought[0]["provider_ref"])], target={"proofsPerHour": 1}, limits={"minInstanceAge": "30m"})

    assert [*codes(over_the_hour), *codes(over_the_day), *codes(too_dear)] == [
        "OverHourlyBudget",
        "OverDailyBudget",
        "TooDearPerProof",
    ]
    assert [*codes(on_target), *codes(needed), *codes(young)] == ["OnTarget", "BelowTarget", "TooYoung"]
    assert stage.market.get("state")["created"] == 1
    stage.check_books()


def test_a_cap_that_is_lowered_stops_no_machine_and_is_told_until_it_holds_again(
    stage: Stage, shown: list[str]
) -> None:
    assert codes(ask(stage, [LOOK], [launch(shown[0])])) == ["done"]

    ask(stage, [LOOK], budget={"fleetUsdPerHour": "0.05"})
    stage.wait_for(lambda: stage.condition("WithinBudget").get("reason") == "OverBudget", "the overrun is said")
    assert [a["code"] for a in stage.rows("SELECT code FROM alerts WHERE state = 'open'")] == ["OverBudget"]
    assert len(stage.market.live()) == 1

    ask(stage, [LOOK], budget={"fleetUsdPerHour": "4.00"})
    stage.wait_for(lambda: stage.condition("WithinBudget")["status"] == "True", "the cap holds again")
    assert [a["state"] for a in stage.rows("SELECT state FROM alerts")] == ["resolved"]
    stage.check_books()


def test_a_model_that_fails_after_its_launch_has_launched_once(stage: Stage, shown: list[str]) -> None:
    said = [{"calls": [LOOK]}, {"calls": [launch(shown[0])]}, *[{"status": 500, "body": "out of memory"}] * 12]
    stage.model.put("script", said)

    stage.annotate(requested_at="and fail")
    stage.wait_for(lambda: stage.runs()[-1]["outcome"] == "Failed", "the run has failed", 90)
    stage.model.put("script", [])
    again = ask(stage, [LOOK], [launch(shown[0])])

    assert codes(again) == ["OfferNotSeen"]  # the market offers it no more: it is ours
    assert stage.market.get("state")["calls"]["create"] == 1
    assert [m["label"] for m in stage.market.live()] == [r["label"] for r in stage.rows("SELECT label FROM instances")]
    stage.check_books()


def test_an_offer_that_is_gone_costs_nothing_and_the_run_goes_on_with_another(stage: Stage, shown: list[str]) -> None:
    gone = [{"kind": f"no_such_ask_{status}", "times": 1} for status in (404, 410, 400)]
    stage.market.put("faults", {"create": gone})

    actions = ask(stage, [LOOK], [launch(shown[0]), launch(shown[1]), launch(shown[2])], [LOOK], [launch(shown[3])])

    assert codes(actions) == ["failed", "failed", "failed", "done"]
    assert not {*shown[:3]} & {*offers(stage)}
    assert [m["label"] for m in stage.market.live()] == [actions[3]["label"]]
    stage.check_books()
