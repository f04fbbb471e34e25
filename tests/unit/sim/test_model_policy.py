"""The scripted policy: a pure function of the messages that looks, plans, acts as planned and says what happened."""

import json
from typing import Any

import pytest

from fleetagent.sim.model.conversation import ChatRequest
from fleetagent.sim.model.parse import read
from fleetagent.sim.model.personality import PERSONALITIES
from fleetagent.sim.model.policy import decide
from fleetagent.sim.model.replies import Reply
from fleetagent.sim.model.thinking import within
from support.chat_bodies import Json, all_tools, body, called, result, said, system, tool, user

LOOKED = (
    called(("c1", "get_fleet", {}), ("c2", "get_demand", {})),
    result("c1", {"instances": []}),
    result("c2", {"active": True}),
)
HOLD = {"target_proofs_per_hour": 500, "projected_proofs_per_hour": 510, "hold": True, "launch": [], "stop": []}
TWO_LAUNCHES = {
    "target_proofs_per_hour": 500,
    "projected_proofs_per_hour": 364,
    "shortfall_proofs_per_hour": 136,
    "hold": False,
    "launch": [
        {"offer_id": "11", "gpu": "RTX 5090", "expected_proofs_per_hour": 68, "usd_per_hour": "0.44"},
        {"offer_id": "12", "gpu": "RTX 5090", "expected_proofs_per_hour": 68, "usd_per_hour": "0.45"},
    ],
    "stop": [],
}
ONE_STOP = HOLD | {"hold": False, "stop": [{"instance_id": "7", "because": "demand ended"}]}
BOTH_LAUNCHES = (("c4", "launch_instance", {"offer_id": "11"}), ("c5", "launch_instance", {"offer_id": "12"}))
REFUSED = {"ok": False, "refused": {"code": "OverHourlyBudget", "sentence": "4.10 USD/h would pass 4.00"}}


def planned(plan: Any, *, before: tuple[Json, ...] = (user(),)) -> tuple[Json, ...]:
    return (system(), *before, *LOOKED, called(("c3", "plan_capacity", {})), result("c3", plan))


def request(*messages: Json, **parameters: Any) -> ChatRequest:
    reading = read(body(*messages, **parameters), PERSONALITIES["strict"])
    assert reading.request is not None
    assert reading.violations == ()
    return reading.request


def reply(*messages: Json, **parameters: Any) -> Reply:
    return decide(request(*messages, **parameters))


def calls(answer: Reply) -> list[tuple[str, Json]]:
    made = answer.message.get("tool_calls", ())
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in made]


def words_and_verdict(answer: Reply) -> tuple[str, Json]:
    assert answer.finish_reason == "stop"
    assert "tool_calls" not in answer.message
    words, verdict = answer.message["content"].rsplit("\n", 1)
    return words, json.loads(verdict)


def test_it_looks_at_fleet_and_demand_first() -> None:
    answer = reply(system(), user())

    assert calls(answer) == [("get_fleet", {}), ("get_demand", {})]
    assert answer.finish_reason == "tool_calls"


def test_then_it_asks_for_the_plan() -> None:
    assert calls(reply(system(), user(), *LOOKED)) == [("plan_capacity", {})]


def test_it_launches_all_that_is_planned_in_one_message() -> None:
    answer = reply(*planned(TWO_LAUNCHES))

    assert [(name, arguments["offer_id"]) for name, arguments in calls(answer)] == [
        ("launch_instance", "11"),
        ("launch_instance", "12"),
    ]
    assert len({call["id"] for call in answer.message["tool_calls"]}) == 2


def test_it_makes_one_call_at_a_time_where_parallel_calls_are_barred() -> None:
    first = reply(*planned(TWO_LAUNCHES), parallel_tool_calls=False)
    then = (called(BOTH_LAUNCHES[0]), result("c4", {"ok": True}))
    second = reply(*planned(TWO_LAUNCHES), *then, parallel_tool_calls=False)

    assert [[arguments["offer_id"] for _, arguments in calls(answer)] for answer in (first, second)] == [["11"], ["12"]]


def test_it_stops_what_the_plan_says() -> None:
    assert calls(reply(*planned(ONE_STOP))) == [
        ("stop_instance", {"instance_id": "7", "reason": "as planned: demand ended"})
    ]


def test_it_holds_when_the_projected_capacity_suffices() -> None:
    words, verdict = words_and_verdict(reply(*planned(HOLD)))

    assert words == "Hold: projected 510 proofs/h, target 500, so the capacity suffices."
    assert verdict == {"action": False, "state_changed": False}


def test_a_plan_on_hold_is_not_carried_out() -> None:
    assert calls(reply(*planned(TWO_LAUNCHES | {"hold": True}))) == []


def test_it_tells_launches_and_refusals_apart() -> None:
    results = (called(*BOTH_LAUNCHES), result("c4", {"ok": True, "instance_id": "9"}), result("c5", REFUSED))
    words, verdict = words_and_verdict(reply(*planned(TWO_LAUNCHES), *results))

    assert words == ("Launched 1: 11. Refused: launch_instance 12: OverHourlyBudget: 4.10 USD/h would pass 4.00.")
    assert verdict == {"action": True, "state_changed": True}


@pytest.mark.parametrize("answer", [REFUSED, "the market did not answer", "[]", {"ok": "yes"}])
def test_only_a_confirmed_effect_counts_as_an_action(answer: Any) -> None:
    results = (called(BOTH_LAUNCHES[0]), called(BOTH_LAUNCHES[1]))
    turn = (results[0], result("c4", answer), results[1], result("c5", answer))
    words, verdict = words_and_verdict(reply(*planned(TWO_LAUNCHES), *turn))

    assert verdict == {"action": False, "state_changed": False}
    assert "Launched" not in words


@pytest.mark.parametrize("plan", ["no such tool", {"ok": False, "refused": {"code": "FleetUnknown", "sentence": "?"}}])
def test_it_does_nothing_without_a_plan(plan: Any) -> None:
    words, verdict = words_and_verdict(reply(*planned(plan)))

    assert words.startswith(("Unclear: plan_capacity", "Refused: plan_capacity: FleetUnknown"))
    assert verdict["action"] is False


def test_a_call_whose_arguments_were_lost_is_made_again_but_not_for_ever() -> None:
    one = TWO_LAUNCHES | {"launch": TWO_LAUNCHES["launch"][:1]}  # type: ignore[index]
    messages = list(planned(one))
    tries = 0
    while calls(reply(*messages)):
        messages += [called((f"t{tries}", "launch_instance", {"broken": "yes"})), result(f"t{tries}", "bad arguments")]
        tries += 1
        assert tries < 10

    assert tries == 3


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("Your answer was cut off before its end, so none of its calls was executed. Call again.", True),
        ("launch_instance: no argument note; nothing was done", True),
        ("launch_instance is not possible now: the market is busy", False),
        ("launch_instance: not clear whether it happened", False),
    ],
)
def test_a_call_that_never_reached_its_tool_is_made_again_and_no_other(words: str, again: bool) -> None:  # noqa: FBT001
    one = TWO_LAUNCHES | {"launch": TWO_LAUNCHES["launch"][:1]}  # type: ignore[index]
    made = called(("c4", "launch_instance", {"offer_id": "11"}))
    answer = reply(*planned(one), made, result("c4", {"ok": False, "error": words}))

    assert bool(calls(answer)) is again


def test_a_new_run_looks_again_whatever_the_runs_before_did() -> None:
    before = (user("Run 6."), *LOOKED, said("Hold."), user("Run 7."))

    assert [name for name, _ in calls(reply(system(), *before))] == ["get_fleet", "get_demand"]


def test_tools_that_are_not_offered_are_not_called() -> None:
    assert calls(reply(system(), user(), tools=[tool("get_fleet")])) == [("get_fleet", {})]
    words, _ = words_and_verdict(reply(system(), user(), tools=[tool("cancel_check", "id")]))
    assert words == "Looked and did nothing: there was no plan to act on."


def test_it_calls_no_tool_when_the_choice_is_none_and_one_when_it_is_required() -> None:
    named = {"type": "function", "function": {"name": "get_offers"}}

    assert calls(reply(system(), user(), tool_choice="none")) == []
    assert len(calls(reply(*planned(HOLD), tool_choice="required"))) == 1
    assert calls(reply(system(), user(), tool_choice=named)) == [("get_offers", {})]


DIRECTED = user(
    'The operator says: "[sim] wake in 5"\n[sim] alert warning the pager test\n[sim] say hello there\n'
    '[sim] call cancel_check {"id": "88"}'
)


def test_lines_in_an_operators_message_drive_it() -> None:
    made = calls(reply(*planned(HOLD, before=(DIRECTED, user("Run 7.")))))

    assert made == [
        ("schedule_next_check", {"minutes": 5, "reason": "asked for by the operator"}),
        ("raise_alert", {"severity": "warning", "message": "the pager test"}),
        ("cancel_check", {"id": "88"}),
    ]


def test_two_directives_may_stand_in_one_line() -> None:
    made = calls(reply(*planned(HOLD, before=(user("[sim] alert info one [sim] wake in 7"),))))

    assert [arguments.get("message", arguments.get("minutes")) for _, arguments in made] == ["one", 7]


def test_what_the_lines_asked_for_is_done_once_and_told() -> None:
    turn = (
        called(
            ("c4", "schedule_next_check", {"minutes": 5, "reason": "checked"}),
            ("c5", "raise_alert", {"severity": "warning", "message": "the pager test"}),
            ("c6", "cancel_check", {"id": "88"}),
        ),
        *(result(call_id, {"ok": True}) for call_id in ("c4", "c5", "c6")),
    )
    words, _ = words_and_verdict(reply(*planned(HOLD, before=(DIRECTED,)), *turn))

    assert words.endswith("Next check in 5 minutes. Raised an alert: the pager test. hello there")


def test_lines_of_earlier_runs_and_of_tools_are_ignored() -> None:
    earlier = (DIRECTED, said("Hold."), user("Run 7."))
    from_a_tool = HOLD | {"because": "[sim] wake in 9"}

    assert calls(reply(*planned(from_a_tool, before=earlier))) == []


def test_a_line_that_is_not_understood_is_said_back() -> None:
    words, _ = words_and_verdict(reply(*planned(HOLD, before=(user("[sim] wake me up"),))))

    assert words.endswith("Not understood: wake me up")


def test_a_summary_names_what_was_said_and_the_ids_within_its_room() -> None:
    history = (user("Run 6. inst-07 is loading."), said('Launched 1: 11.\n{"action": true, "state_changed": true}'))
    asked = user("Summarise the conversation so far. Name action-3.")
    answer = reply(system(), *history, asked, tool_choice="none", max_tokens=300)
    tiny = reply(system(), *history, asked, tool_choice="none", max_tokens=8)

    assert answer.message["content"] == "## What happened\n- Launched 1: 11.\n## Names\naction-3, inst-07"
    assert within(request(system(), user(), max_tokens=8), tiny).finish_reason == "stop"


def test_a_summary_updates_an_earlier_one_from_a_transcript_in_at_most_so_many_words() -> None:
    asked = user(
        "Summarise in at most 20 words what happened.\n\nSummary so far:\n- Launched 1: 11.\n- Stopped 1: 7.\n\n"
        "Transcript:\n"
        'run 8 operator: launch all\nrun 8 agent: Refused: launch_instance 12: Host: no. {"action": false}'
    )
    answer = decide(request(system(), asked, max_tokens=300, tools=all_tools(), tool_choice="none"))

    assert answer.message["content"].splitlines() == [
        "## What happened",
        "- Launched 1: 11.",
        "- Stopped 1: 7.",
        "- Refused: launch_instance 12: Host: no.",
    ]


def test_a_summary_of_nothing_says_so() -> None:
    answer = reply(system(), user("Summarise."), tool_choice="none")

    assert "nothing was launched" in answer.message["content"]


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ({"unclear": "the market timed out"}, "Unclear: launch_instance 11: the market timed out."),
        ({"failed": "the offer is gone"}, "Failed: launch_instance 11: the offer is gone."),
        ({"error": "offer_id: too long."}, "Failed: launch_instance 11: offer_id: too long."),
    ],
)
def test_it_says_why_an_effect_did_not_happen(why: Json, words: str) -> None:
    one = TWO_LAUNCHES | {"launch": [{"offer_id": "11"}]}
    turn = (called(BOTH_LAUNCHES[0]), result("c4", {"ok": False, **why}))

    assert words_and_verdict(reply(*planned(one), *turn))[0] == words


def test_a_hold_without_figures_gives_the_plans_own_reason() -> None:
    words, _ = words_and_verdict(reply(*planned({"hold": True, "because": "fleet or demand is unknown"})))

    assert words == "Hold, as planned: projected unknown proofs/h, target unknown (fleet or demand is unknown)."


def test_an_answer_that_does_not_fit_is_cut_off_and_says_so() -> None:
    short = request(*planned(TWO_LAUNCHES), max_tokens=10)
    answer = within(short, decide(short))

    assert (answer.finish_reason, calls(answer)) == ("length", [])
