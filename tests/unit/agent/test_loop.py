"""The conversation of one run is bounded, whatever the model says, and the next run is clean."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fleetagent.agent.desk import Desk
from fleetagent.agent.loop import MOST_ROUNDS, verdict_in
from fleetagent.agent.progress import CUT_OFF_TWICE, MOST_CALLS, MOST_SAME_CALLS, MOST_USELESS_ANSWERS
from fleetagent.domain.conversation.calls import MAX_CALLS
from fleetagent.domain.conversation.messages import Kind
from fleetagent.domain.model import Reply, Usage
from fleetagent.domain.records import Outcome
from support.fakes import VERDICT, StrictModel, calls, says
from support.rehearsal import Rehearsal, a_tool

LOOK = a_tool("look", {"machines": 1})


def counting() -> tuple[list[int], object]:
    """A tool that counts how often it was called, and the count."""
    made: list[int] = []

    async def answer(_: object) -> dict[str, int]:
        made.append(1)
        return {"calls": len(made)}

    return made, a_tool("act", answer)


async def clean_next_run(on: Rehearsal) -> None:
    """The run after a bad one ends well, on a request that a strict server takes."""
    ended = await on.run()
    assert ended.outcome is Outcome.HELD, ended
    assert ended.model_problem is None


async def test_a_run_looks_and_answers() -> None:
    model = StrictModel(calls("look"), says(f"All is well.\n{VERDICT}"))
    on = Rehearsal(model, (LOOK,))

    ended = await on.run()

    assert ended.outcome is Outcome.HELD
    assert on.memory.concluded[1].summary == "All is well."
    assert on.memory.concluded[1].verdict_said == {"action": False, "state_changed": False}
    assert json.loads(model.texts()[-1]) == {"machines": 1}


async def test_the_same_call_again_and_again_ends_the_run() -> None:
    model = StrictModel(*[calls("look")] * 50)
    on = Rehearsal(model, (LOOK,))

    ended = await on.run()

    assert ended.outcome is Outcome.NO_PROGRESS
    assert len(model.requests) == MOST_SAME_CALLS + 1
    assert "same call" in str(on.memory.concluded[1].error)
    model.script = []
    await clean_next_run(on)


async def test_two_calls_by_turns_end_the_run_as_well() -> None:
    model = StrictModel(*[calls(name) for _ in range(50) for name in ("look", "peep")])
    on = Rehearsal(model, (LOOK, a_tool("peep", {})))

    ended = await on.run()

    assert ended.outcome is Outcome.NO_PROGRESS
    assert len(model.requests) == 2 * MOST_SAME_CALLS + 1


@pytest.mark.parametrize("minutes", [5, None], ids=["the same check", "ever another one"])
async def test_a_model_that_only_asks_to_be_called_again_ends_within_the_rounds(minutes: int | None) -> None:
    asked = [calls(("schedule_next_check", {"minutes": minutes or n + 5, "reason": "routine"})) for n in range(50)]
    on = Rehearsal(StrictModel(*asked))

    ended = await on.run()

    assert ended.outcome is Outcome.NO_PROGRESS
    assert len(on.memory.wakes) <= on.agent.spec.schedule.wakes.limit


async def test_the_same_question_after_an_effect_is_a_new_one() -> None:
    async def act(desk: Desk) -> dict[str, Any]:
        desk.pulse = replace(desk.pulse, launches_this_run=desk.pulse.launches_this_run + 1)
        return {"ok": True}

    script = [calls(name) for _ in range(5) for name in ("look", "act")]
    on = Rehearsal(StrictModel(*script, says()), (LOOK, a_tool("act", act)))

    assert (await on.run()).outcome is Outcome.HELD


async def test_ever_new_calls_end_after_a_bounded_number_of_rounds() -> None:
    model = StrictModel(*[calls(("look", {"page": n})) for n in range(50)])
    on = Rehearsal(model, (LOOK,))

    ended = await on.run()

    assert ended.outcome is Outcome.NO_PROGRESS
    assert len(model.requests) == MOST_ROUNDS
    model.script = []
    await clean_next_run(on)
    assert "ended without an answer" in "".join(model.texts())


async def test_no_call_of_an_answer_that_was_cut_off_is_executed() -> None:
    made, act = counting()
    model = StrictModel(calls("act", cut_off=True), says())
    on = Rehearsal(model, (act,))  # type: ignore[arg-type]

    ended = await on.run()

    assert made == []
    assert "cut off" in model.texts()[-1]
    assert ended.outcome is Outcome.HELD


@pytest.mark.parametrize(
    "again", [calls("act", cut_off=True), says("I will now", cut_off=True)], ids=["in a call", "in words"]
)
async def test_a_model_that_is_cut_off_twice_is_not_asked_a_third_time(again: object) -> None:
    made, act = counting()
    model = StrictModel(says("Let me", cut_off=True), again, calls("act"))  # type: ignore[arg-type]
    on = Rehearsal(model, (act,))  # type: ignore[arg-type]

    ended = await on.run()

    assert (made, ended.outcome, ended.error) == ([], Outcome.NO_PROGRESS, CUT_OFF_TWICE)
    model.script = []
    await clean_next_run(on)


UNREAD = Reply(
    '<tool_call>{"name": "act"', (), cut_off=False, usage=Usage(), finish_reason="stop", unread="since it is not whole"
)


@pytest.mark.parametrize("reply", [calls("dance"), calls(("act", "[")), UNREAD], ids=["unknown", "broken", "as text"])
async def test_answers_without_one_call_that_can_be_executed_end_the_run_with_a_remedy(reply: Reply) -> None:
    model = StrictModel(*[replace(reply, calls=(*reply.calls,)) for _ in range(50)])
    on = Rehearsal(model, (LOOK,))

    ended = await on.run()

    assert ended.outcome is Outcome.NO_PROGRESS
    assert len(model.requests) == MOST_USELESS_ANSWERS + 1
    assert "tool parser" in str(ended.error)
    model.script = []
    await clean_next_run(on)


async def test_a_run_makes_no_more_calls_than_it_may_and_the_rest_are_answered() -> None:
    made, act = counting()
    model = StrictModel(*[calls(*[("act", {"n": n, "round": r}) for n in range(MAX_CALLS)]) for r in range(9)])
    on = Rehearsal(model, (act,))  # type: ignore[arg-type]

    ended = await on.run()

    assert len(made) == MOST_CALLS
    assert ended.outcome is Outcome.NO_PROGRESS
    assert "too many" in str(ended.error)
    results = [r.message for r in on.memory.rows if r.message.kind is Kind.TOOL_RESULT]
    assert sum("the limit" in m.content for m in results) == len(results) - MOST_CALLS > 0


async def test_an_unreadable_call_is_shown_to_its_own_run_alone_and_stays_in_the_audit() -> None:
    model = StrictModel(UNREAD, says(), says())
    on = Rehearsal(model, (LOOK,))

    await on.run()
    await on.run()

    assert "<tool_call>" in "".join(model.texts(1))
    assert "<tool_call>" not in "".join(model.texts(2))
    assert any(UNREAD.text == r.message.content for r in on.memory.rows)


async def test_a_model_that_imitates_the_placeholder_has_not_answered() -> None:
    ended = await Rehearsal(StrictModel(calls("look"), says(".")), (LOOK,)).run()

    assert ended.outcome is Outcome.FAILED


async def test_words_that_were_cut_off_are_no_answer() -> None:
    model = StrictModel(says("The fleet is on tar", cut_off=True), says())
    on = Rehearsal(model, (LOOK,))

    assert (await on.run()).outcome is Outcome.HELD
    nudges = [r.message.content for r in on.memory.rows if r.message.kind is Kind.NUDGE]
    assert len(nudges) == 1
    assert "cut off" in nudges[0]


async def test_thoughts_alone_are_a_failure_and_not_a_quiet_run() -> None:
    model = StrictModel(says("<think>hold, I think"))
    on = Rehearsal(model, (LOOK,))

    ended = await on.run()

    assert ended.outcome is Outcome.FAILED
    assert ended.model_problem is not None
    assert ended.model_problem[0] == "BadReply"
    assert not on.memory.concluded[1].quiet
    await clean_next_run(on)


async def test_parallel_calls_are_answered_in_order_each_once() -> None:
    made, act = counting()
    model = StrictModel(calls("act", "look", "act"), says())
    on = Rehearsal(model, (LOOK, act))  # type: ignore[arg-type]

    await on.run()

    assert [json.loads(t) for t in model.texts()[-3:]] == [{"calls": 1}, {"machines": 1}, {"calls": 2}]
    assert len(made) == 2


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ('Held.\n{"action": false, "state_changed": true}', "Held.", {"action": False, "state_changed": True}),
        ('Held.\n```json\n{"action": true}\n```', "Held.", {"action": True}),
        ("Held.", "Held.", None),
        ('Held. {"other": 1}', 'Held. {"other": 1}', None),
        ('{"action": NaN, "state_changed": "\\u0000"}', "", None),
        ('Held {"action": ' + "[" * 5_000, 'Held {"action": ' + "[" * 5_000, None),
        ('{"action": "yes", "state_changed": false}', "", {"state_changed": False}),
    ],
)
def test_only_true_and_false_count_in_a_verdict(text: str, words: str, said: dict[str, bool] | None) -> None:
    assert verdict_in(text) == (words, said)
