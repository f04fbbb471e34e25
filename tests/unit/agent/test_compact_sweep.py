"""A conversation at every budget, cut at every message: no request is refused, pairs stay together, nothing loops."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from fleetagent.domain.conversation.calls import normalise
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.window import request_estimate
from fleetagent.domain.model import ModelRequest, RawCall, Reply, Usage
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from support.counting_model import CountingModel
from support.fakes import calls, says
from support.memory import Memory, Row
from support.rehearsal import COUNT, Rehearsal, a_tool

PARALLEL = 5
REPLY_TOKENS = 512
ROOMY_TOKENS = 4_000  # below, the fixed prompt takes what is kept free for results
FACTS = "instance 33014980 proves at 42.5 proofs/h; "
WORDS = "Operator: prefer hosts in the EU, and never more than two machines on one of them."
SUMMARY = "Fleet\nTwo machines prove.\nDecisions\nHeld since run 1, as planned, on target.\n"
LOOK = a_tool("look", {"facts": FACTS * 30})
A_RUN_OF_FIVE_CALLS = (calls(*["look"] * PARALLEL), says())


@lru_cache(maxsize=1_000)
def count(text: str) -> int:
    return COUNT(text)


def counted(request: ModelRequest) -> int:
    """A tenth more than we think."""
    return request_estimate(request.messages, request.tools, count) * 11 // 10


def a_past_run(run_id: int) -> list[Message]:
    """An observation, a person's words now and then, five calls at once with their results, an answer."""
    raw = tuple(RawCall("look", f'{{"page":{n}}}') for n in range(PARALLEL))
    asking, asked = normalise(Reply("let me look", raw, cut_off=False, usage=Usage(), finish_reason="stop"), run_id, 1)
    spoken = [Message(run_id, Kind.FEEDBACK, "user", f"{WORDS} ({run_id})")] if run_id % 4 == 0 else []
    results = [
        Message(run_id, Kind.TOOL_RESULT, "tool", FACTS * 30, tool_call_id=c.id, history_content=FACTS * 6)
        for c in asked
    ]
    facts = Message(run_id, Kind.OBSERVATION, "user", f"[Run #{run_id}] {FACTS * 4}")
    return [*spoken, facts, asking, *results, Message(run_id, Kind.REPLY, "assistant", f"Held in run {run_id}.")]


def a_past(runs: int, cut_at: int | None = None) -> Memory:
    """So many runs; of the newest, the messages before this one alone."""
    rows = [m for run_id in range(1, runs) for m in a_past_run(run_id)] + a_past_run(runs)[:cut_at]
    stored = [Row(1, replace(m, seq=n)) for n, m in enumerate(rows, start=1)]
    return Memory(rows=stored, started=runs)


def rehearsed(budget_tokens: int, memory: Memory, **spec: Any) -> tuple[Rehearsal, CountingModel]:
    model = CountingModel(budget_tokens, count=counted, checked_every=1)
    model.script, model.summaries = list(A_RUN_OF_FIVE_CALLS), [says(SUMMARY)]
    limits = {"context": {"tokenBudget": budget_tokens}, "model": {"maxOutputTokens": REPLY_TOKENS}}
    return Rehearsal(model, (LOOK,), {**limits, **spec}, memory), model


def whole_run(run_id: int) -> set[Kind]:
    return {m.kind for m in a_past_run(run_id)}


def shown(memory: Memory) -> list[tuple[int, set[Kind]]]:
    """What kinds of messages are left in the prompt of each past run."""
    return [
        (run_id, {r.message.kind for r in memory.rows if r.message.run_id == run_id and r.left is None})
        for run_id in range(1, 17)
    ]


@pytest.mark.parametrize("from_tokens", range(2_000, 31_001, 1_000))
async def test_at_every_budget_the_run_ends_well_and_no_request_is_refused(from_tokens: int) -> None:
    for budget_tokens in range(from_tokens, from_tokens + 1_000, 50):
        on, model = rehearsed(budget_tokens, a_past(runs=16))

        ended = await on.run(Trigger.REQUEST)

        assert (ended.outcome, model.refused) == (Outcome.HELD, []), budget_tokens
        assert max(f.prompt_tokens for f in model.asked) < budget_tokens
        if budget_tokens >= ROOMY_TOKENS:
            room_for_results = budget_tokens // 4
            assert model.asked[0].prompt_tokens <= budget_tokens - REPLY_TOKENS - room_for_results, budget_tokens
        assert len(on.memory.compactions) <= 1
        assert all(kinds == whole_run(run_id) or kinds <= {Kind.FEEDBACK} for run_id, kinds in shown(on.memory))
        assert model.shows(f"{WORDS} (16)"), "the newest words of people stay"
        newest = model.last.messages if model.last else ()
        assert any(m["role"] == "user" and "[Run #17" in str(m["content"]) for m in newest)


@pytest.mark.parametrize("cut_at", range(1, PARALLEL + 5))
async def test_a_run_that_was_cut_at_any_message_never_breaks_a_later_request(cut_at: int) -> None:
    for budget_tokens in range(2_000, 8_000, 400):
        on, model = rehearsed(budget_tokens, a_past(runs=12, cut_at=cut_at))

        ended = await on.run(Trigger.REQUEST)

        assert (ended.outcome, model.refused) == (Outcome.HELD, []), budget_tokens


@pytest.mark.parametrize("summary", [says(""), calls("look"), says(SUMMARY, cut_off=True)])
async def test_at_every_budget_the_digest_fits_where_the_summary_was_none(summary: Reply) -> None:
    for budget_tokens in range(2_000, 12_000, 250):
        on, model = rehearsed(budget_tokens, a_past(runs=16))
        model.summaries = [summary]

        ended = await on.run(Trigger.REQUEST)

        assert (ended.outcome, model.refused) == (Outcome.HELD, []), budget_tokens
        assert {c["method"] for c in on.memory.compactions} <= {"Digest", "Masked"}


async def test_around_the_size_of_the_fixed_prompt_it_fits_or_is_said_not_to_and_never_loops() -> None:
    outcomes = []
    for sentences in range(40, 140):
        on, model = rehearsed(2_000, a_past(runs=3), instructions="Be frugal with everything. " * sentences)

        ended = [await on.run(Trigger.REQUEST) for _ in range(3)]

        outcomes.append(ended[0].outcome)
        assert model.refused == []
        if ended[0].outcome is Outcome.CONTEXT_FULL:
            assert {e.outcome for e in ended} == {Outcome.CONTEXT_FULL}
            assert "spec.context.tokenBudget" in str(ended[-1].error)
            assert model.summaries_asked <= 1, "no summary is paid for again and again"
            assert len(on.memory.compactions) <= 1
    border = outcomes.index(Outcome.CONTEXT_FULL)
    assert set(outcomes[:border]) == {Outcome.HELD}
    assert set(outcomes[border:]) == {Outcome.CONTEXT_FULL}, "below the border it fits, above it never does"


@pytest.mark.parametrize("budget_tokens", [2_000, 4_000, 12_000, 30_000])
async def test_a_result_larger_than_the_budget_is_cut_to_its_room_and_says_so(budget_tokens: int) -> None:
    on, model = rehearsed(budget_tokens, a_past(runs=2))
    on.tools = (a_tool("look", {"facts": FACTS * 9_000}),)

    ended = await on.run(Trigger.REQUEST)

    assert (ended.outcome, model.refused) == (Outcome.HELD, [])
    results = [str(m["content"]) for m in model.last.messages if m["role"] == "tool"] if model.last else []
    cut = ["[cut: " in text and "There is no room for the rest" in text for text in results[-PARALLEL:]]
    assert cut == [True] * PARALLEL
