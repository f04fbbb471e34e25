"""Room is made before each request: what leaves, what stays, and what happens when nothing helps."""

from dataclasses import replace
from typing import Any

import pytest

from fleetagent.domain.conversation.messages import Kind, Left, Message
from fleetagent.domain.model import Reply
from fleetagent.domain.records import ActionState, Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import BadReply, TryLater
from support.fakes import Line, StrictModel, calls, says
from support.memory import Memory, Row
from support.rehearsal import COUNT, Rehearsal, a_tool
from support.stores import HELD

REQUEST = Trigger.REQUEST
SUMMARY = "Fleet\nTwo machines prove.\nDecisions\nHeld since run 1, as planned, on target.\n"
LONG = "instance 33014980 proves at 42.5 proofs/h since 2026-11-29T11:02; " * 700


def fat(memory: Memory, *texts: str, words: str | None = None) -> None:
    """One finished run whose messages are these: an observation, then answers and observations in turn."""
    memory.started += 1
    kinds = [Kind.OBSERVATION, Kind.REPLY] * len(texts)
    rows = [Message(memory.started, k, "", text) for k, text in zip(kinds, texts, strict=False)]
    if words:
        rows.insert(0, Message(memory.started, Kind.FEEDBACK, "user", words))
    memory.rows += [Row(1, replace(m, seq=len(memory.rows) + n)) for n, m in enumerate(rows, start=1)]


def huge(**more: Any) -> tuple[Rehearsal, StrictModel]:
    """Five messages of 38,000 tokens in all."""
    model = StrictModel(says(), says())
    on = Rehearsal(model, **more)
    size = len(LONG) * 38_000 // COUNT(LONG) // 5
    fat(on.memory, *[(LONG * 2)[:size]] * 5)
    return on, model


async def test_a_short_but_huge_conversation_is_compacted_before_the_next_request() -> None:
    on, model = huge()
    model.summaries = [says(SUMMARY)]

    ended = await on.run(REQUEST)

    assert ended.outcome is Outcome.HELD
    assert max(model.prompt_tokens) <= 30_000 - 2_048
    assert [c["method"] for c in on.memory.compactions] == ["Summary"]
    assert on.memory.session.context_tokens == model.prompt_tokens[-1]
    assert on.cluster.events[0][0] == "Compacted"
    assert b'fleetagent_compactions_total{method="Summary",' in on.metrics.text()
    assert {r.left for r in on.memory.rows if r.message.run_id == 1} == {Left.COMPACTED}, "the audit keeps all of it"
    assert any(SUMMARY.strip() in text for text in model.texts())


BAD_SUMMARIES: dict[str, Line] = {
    "nothing": says(""),
    "thoughts alone": Reply("", (), cut_off=True, usage=says().usage, finish_reason="length", reasoning="well"),
    "a call": calls("get_fleet"),
    "cut off": says(SUMMARY, cut_off=True),
    "longer than its source": says(SUMMARY * 2_000),
    "a refusal": says("I'm sorry, but I can't help with that."),
    "a refusal in two lines": says("I'm sorry, I can't help with that.\nPlease send the transcript that you mean."),
    "an error": says("Error: the upstream model did not answer in time.\nRequest id 7f3e, retry after 30 seconds."),
    "OK": says("OK"),
    "a server error": TryLater("500 three times"),
    "no choices": BadReply("no choices"),
    "with NUL": says("\x00"),
}


@pytest.mark.parametrize("what", BAD_SUMMARIES)
async def test_a_summary_that_is_none_gives_way_to_the_digest(what: str) -> None:
    on, model = huge()
    model.summaries = [BAD_SUMMARIES[what]]

    ended = await on.run(REQUEST)

    assert ended.outcome is Outcome.HELD
    assert [c["method"] for c in on.memory.compactions] == ["Digest"]
    assert on.memory.compactions[0]["because"]
    assert "the model's summary was not used" in on.cluster.events[0][1]
    assert len([r for r in on.memory.rows if r.message.run_id == 1]) == 5
    assert (await on.run(REQUEST)).outcome is Outcome.HELD


async def test_a_summary_that_forgets_a_machine_which_its_runs_rented_gives_way_to_the_digest_that_names_it() -> None:
    on, model = huge()
    on.memory.act(1, ActionState.DONE)
    on.memory.act(1, ActionState.REFUSED)
    on.memory.concluded[1] = HELD
    model.summaries = [says(SUMMARY)]

    await on.run(REQUEST)

    (compaction,) = on.memory.compactions
    assert (compaction["method"], compaction["because"]) == ("Digest", "it does not name 9001")
    assert "launch 9001 (done); launch refused (OnTarget)" in compaction["summary"]


async def test_a_summary_is_asked_to_name_the_machines_that_its_runs_rented_and_ended() -> None:
    on, model = huge()
    on.memory.act(1, ActionState.DONE)
    on.memory.concluded[1] = HELD
    model.summaries = [says(SUMMARY + "9001 was launched.\n")]

    await on.run(REQUEST)

    assert [c["method"] for c in on.memory.compactions] == ["Summary"]
    asked = next(r for r in model.requests if not r.may_call_tools)
    assert "Name these machines: 9001.\n" in str(asked.messages[-1]["content"])


async def test_the_next_summary_updates_the_last_one() -> None:
    on, model = huge()
    model.summaries = [says(SUMMARY), says(SUMMARY.replace("Two", "Three"))]
    await on.run(REQUEST)
    fat(on.memory, LONG, LONG)

    await on.run(REQUEST)

    asked = [r for r in model.requests if not r.may_call_tools]
    assert len(asked) == 2
    assert f"Summary so far:\n{SUMMARY.strip()}" in str(asked[1].messages[-1]["content"])
    assert "Three machines" in str(on.memory.session.summary)


async def test_words_of_people_stay_verbatim_while_they_fit_their_share() -> None:
    on, model = huge()
    for n in range(14):
        fat(on.memory, LONG[:1_500], words=(f"words {n}: " + "prefer hosts in the EU. " * 99)[:2_000])
    model.summaries = [says(SUMMARY)]

    await on.run(REQUEST)

    kept = [t for t in model.texts() if t.startswith("words ")]
    assert 1 < len(kept) < 14
    assert kept[-1] == ("words 13: " + "prefer hosts in the EU. " * 99)[:2_000]
    assert sum(map(COUNT, kept)) <= 30_000 * 0.15
    assert "older messages of the operator left the prompt" in on.cluster.events[0][1]


async def test_words_that_stayed_once_drop_out_when_newer_ones_need_their_room() -> None:
    on, model = huge()
    for n in range(30):
        fat(on.memory, LONG[:30_000], words=(f"words {n}: " + "prefer hosts in the EU. " * 99)[:2_000])
        model.script, model.summaries = [says()], [says(SUMMARY)]
        await on.run(REQUEST)

    kept = [t.partition(":")[0] for t in model.texts() if t.startswith("words ")]
    assert kept[-1] == "words 29"
    assert kept == [f"words {n}" for n in range(30 - len(kept), 30)]
    assert sum(COUNT(t) for t in model.texts() if t.startswith("words ")) <= 30_000 * 0.15


async def test_masking_alone_suffices_when_old_facts_are_the_bulk() -> None:
    model = StrictModel(says())
    on = Rehearsal(model)
    for _ in range(12):
        fat(on.memory, LONG[:6_000], "held")

    await on.run(REQUEST)

    assert [c["method"] for c in on.memory.compactions] == ["Masked"]
    assert [r for r in model.requests if not r.may_call_tools] == []
    assert model.texts().count("[left out]") == 10
    assert model.texts().count("held") == 12
    assert on.memory.session.masked_before_run == 11


@pytest.mark.parametrize("named", [True, False], ids=["the window is named", "no number"])
async def test_a_server_whose_window_is_smaller_is_asked_again_with_less(named: bool) -> None:  # noqa: FBT001
    model = StrictModel(says(), window=12_000)
    model.names_window = named
    on = Rehearsal(model)
    for _ in range(3):
        fat(on.memory, LONG[:9_000], "held")
    model.summaries = [says(SUMMARY)]

    ended = await on.run(REQUEST)

    assert ended.outcome is Outcome.HELD
    assert model.prompt_tokens[0] > 12_000 > model.prompt_tokens[-1]
    assert len(on.memory.compactions) == 1


async def test_what_tools_answer_is_fitted_to_the_window_that_the_server_named() -> None:
    model = StrictModel(calls("look"), says(), window=12_000)
    on = Rehearsal(model, (a_tool("look", {"facts": LONG * 9}),))
    for _ in range(3):
        fat(on.memory, LONG[:9_000], "held")

    ended = await on.run(REQUEST)

    assert ended.outcome is Outcome.HELD
    assert sum(n > 12_000 - 2_048 for n in model.prompt_tokens) == 1, "it was refused once"


async def test_a_server_that_refuses_every_length_ends_the_run_as_context_full() -> None:
    model = StrictModel(window=1_500)
    on = Rehearsal(model)
    fat(on.memory, LONG[:10_000], "held")

    ended = await on.run(REQUEST)

    assert ended.outcome is Outcome.CONTEXT_FULL
    assert len(model.requests) <= 3
    assert "window" in str(ended.error)


async def test_a_server_that_counts_more_than_we_do_is_never_sent_more_than_the_budget_for_long() -> None:
    tool = a_tool("look", {"facts": LONG[:9_000]})
    model = StrictModel(*[calls("look"), says()] * 40, counts_more=1.6, window=12_000)
    on = Rehearsal(model, (tool,), spec={"context": {"tokenBudget": 12_000}, "schedule": {"skipUnchanged": False}})

    for n in range(20):
        on.memory.say(f"message {n}")
        assert (await on.run()).outcome is Outcome.HELD

    assert model.prompt_tokens[-1] <= 12_000 - 2_048
    assert on.memory.calibration[f"{on.agent.spec.model.base_url} {on.agent.spec.model.name}"].ratio > 1.3


async def test_results_that_do_not_fit_are_cut_and_the_run_goes_on() -> None:
    tool = a_tool("look", {"facts": LONG * 9})
    model = StrictModel(calls("look"), calls(("look", {"page": 2})), says())
    on = Rehearsal(model, (tool,))

    ended = await on.run()

    assert ended.outcome is Outcome.HELD
    assert "There is no room for the rest" in model.texts(1)[-1]
    assert max(model.prompt_tokens) <= 30_000 - 2_048


async def test_a_budget_below_the_fixed_prompt_ends_each_run_at_once_without_a_call() -> None:
    model = StrictModel()
    on = Rehearsal(model, spec={"context": {"tokenBudget": 2_000}, "instructions": "be frugal. " * 400})

    ended = [await on.run(REQUEST) for _ in range(5)]

    assert {e.outcome for e in ended} == {Outcome.CONTEXT_FULL}
    assert (model.requests, ended[-1].model_asked) == ([], False)
    assert "spec.context.tokenBudget is 2000: raise it" in str(ended[-1].error)
    on.spec = {}
    assert (await on.run(REQUEST)).outcome is Outcome.HELD
