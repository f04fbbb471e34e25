"""A conversation that is compacted at every budget: the request stays valid, fits, and keeps people's words."""

import json
from collections.abc import Sequence

from fleetagent.domain.conversation.calls import normalise
from fleetagent.domain.conversation.compaction import Compaction, FeedbackSize, RunSize, plan
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.conversation.transcript import repair, wire
from fleetagent.domain.conversation.window import Budget, Calibration, message_tokens, request_estimate
from fleetagent.domain.model import JsonObject, RawCall, Reply, Usage

PARALLEL_CALLS = 5
SUMMARY = Message(0, Kind.SUMMARY, "user", "Fleet\nas summarised")


def count(text: str) -> int:
    return -(-len(text) // 4)


def a_conversation(runs: int) -> list[Message]:
    """Runs of one observation, parallel calls with long results and a closing word; each third has a person's words."""
    rows: list[Message] = []
    for run_id in range(1, runs + 1):
        raw = (RawCall("get_fleet", "{}"),) * PARALLEL_CALLS
        asking, calls = normalise(Reply("looking", raw, cut_off=False, usage=Usage(), finish_reason="stop"), run_id, 1)
        rows += [Message(run_id, Kind.OBSERVATION, "user", f"facts of run {run_id} " * 20)]
        if run_id % 3 == 0:
            rows += [Message(run_id, Kind.FEEDBACK, "user", f"operator's words {run_id}")]
        rows += [asking]
        rows += [Message(run_id, Kind.TOOL_RESULT, "tool", "r" * 800, tool_call_id=call.id) for call in calls]
        rows += [Message(run_id, Kind.REPLY, "assistant", f"held in run {run_id}")]
    rows += [Message(runs + 1, Kind.OBSERVATION, "user", "the facts now")]
    return [
        Message(m.run_id, m.kind, m.role, m.content, m.tool_calls, m.tool_call_id, seq=i) for i, m in enumerate(rows)
    ]


def request(rows: Sequence[Message], masked_before_run: int) -> tuple[JsonObject, ...]:
    return wire("system " * 50, repair(rows), current_run=rows[-1].run_id, masked_before_run=masked_before_run)


def sizes(rows: Sequence[Message]) -> list[RunSize]:
    current = rows[-1].run_id
    found = []
    for run_id in sorted({m.run_id for m in rows if m.kind is not Kind.SUMMARY and m.run_id != current}):
        own = [m for m in rows if m.run_id == run_id]

        def tokens(messages: Sequence[Message], masked_before_run: int) -> int:
            shown = wire("", messages, current_run=current, masked_before_run=masked_before_run)[1:]
            return sum(message_tokens(m, count) for m in shown)

        feedback = tuple(FeedbackSize(m.seq, tokens([m], 0)) for m in own if m.kind is Kind.FEEDBACK)
        found.append(RunSize(run_id, tokens(own, 0), tokens(own, current), feedback))
    return found


def compacted(rows: Sequence[Message], what: Compaction) -> list[Message]:
    if not what.summarise_runs and not what.drop_feedback:
        return list(rows)
    left = [m for m in rows if m.run_id not in what.summarise_runs or m.seq in what.keep_feedback]
    return [SUMMARY, *[m for m in left if m.kind is not Kind.SUMMARY and m.seq not in what.drop_feedback]]


def test_at_every_budget_the_compacted_request_is_valid_and_fits() -> None:
    rows = a_conversation(runs=9)
    everything = request_estimate(request(rows, 0), (), count)
    masked_only = summarised = 0

    for total in range(1_500, everything + 1_200, 50):
        budget = Budget(total, reply=300, tool_results=400)
        projected = Calibration(1.15, 9).project(request_estimate(request(rows, 0), (), count))
        runs = sizes(rows)
        fixed = request_estimate(request(rows, 0), (), count) - sum(r.tokens_full for r in runs)

        what = plan(
            runs,
            fixed_tokens=fixed,
            summary_tokens=0,
            projected_tokens=projected,
            budget=budget,
            masked_before_run=0,
        )

        assert what is not None or projected <= budget.before_a_run
        if what is None:
            continue
        after = request(compacted(rows, what), what.masked_before_run)
        assert violations(after) == []
        assert Calibration(1.15, 9).project(request_estimate(after, (), count)) <= budget.before_a_run
        assert [json.dumps(m) for m in after].count(json.dumps({"role": "user", "content": "operator's words 9"})) == 1
        masked_only += not what.summarise_runs
        summarised += bool(what.summarise_runs)
    assert masked_only > 0
    assert summarised > 0


def test_many_compactions_in_a_row_never_lose_the_newest_words_or_the_shape() -> None:
    rows = a_conversation(runs=40)
    kept, masked = rows[:1], 0
    budget = Budget(4_000, reply=300, tool_results=400)
    compactions = 0

    for row in rows[1:]:
        kept.append(row)
        if row.kind is not Kind.OBSERVATION:
            continue
        runs = sizes(kept)
        estimate = request_estimate(request(kept, masked), (), count)
        shown = sum(r.tokens_masked if r.run_id < masked else r.tokens_full for r in runs)
        what = plan(
            runs,
            fixed_tokens=estimate - shown,
            summary_tokens=message_tokens({"content": SUMMARY.content}, count) if SUMMARY in kept else 0,
            projected_tokens=estimate,
            budget=budget,
            masked_before_run=masked,
        )
        if what is not None:
            compactions += 1
            kept, masked = compacted(kept, what), what.masked_before_run
        sent = request(kept, masked)
        assert violations(sent) == []
        assert request_estimate(sent, (), count) <= budget.before_a_run
        newest_words = (row.run_id - 1) // 3 * 3
        assert newest_words == 0 or any(m["content"] == f"operator's words {newest_words}" for m in sent)
    assert 3 <= compactions < 20
