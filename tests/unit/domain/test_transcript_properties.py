"""Whatever was stored, whatever a model said, wherever a crash or a compaction cut: the request is valid."""

import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from fleetagent.domain.calls import normalise
from fleetagent.domain.messages import Kind, Message, ToolCall
from fleetagent.domain.model import RawCall, Reply, Usage
from fleetagent.domain.strict import violations
from fleetagent.domain.transcript import repair, wire

QUICK = settings(deadline=None, max_examples=60)

TEXT = st.one_of(
    st.sampled_from(["", " ", "ok", "\x00", "\ud800", "</think>", "<think>"]),
    st.text(st.characters(exclude_categories=()), max_size=30),
)
IDS = st.one_of(st.sampled_from(["a", "b", "a_2", "r1_1_0", "", "x" * 50, "b!d"]), TEXT)
ARGUMENTS = st.one_of(
    st.sampled_from(["", "null", "{}", "[]", '"x"', '{"a":NaN}', '{"a":1,"a":2}', '{"a": 12', '"{}"', '{"a":1e999}']),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps),
    TEXT,
)
ROWS = st.lists(
    st.builds(
        Message,
        run_id=st.integers(1, 4),
        kind=st.sampled_from(Kind),
        role=st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
        content=TEXT,
        tool_calls=st.lists(st.builds(ToolCall, id=IDS, name=TEXT, arguments=ARGUMENTS), max_size=3).map(tuple),
        tool_call_id=st.none() | IDS,
        history_content=st.none() | TEXT,
    ),
    max_size=12,
)
REPLIES = st.builds(
    Reply,
    text=TEXT,
    calls=st.lists(st.builds(RawCall, name=st.just("get_fleet") | TEXT, arguments=ARGUMENTS), max_size=4).map(tuple),
    cut_off=st.booleans(),
    usage=st.just(Usage()),
    finish_reason=st.sampled_from(["stop", "length", "tool_calls", ""]),
)


def as_bytes(messages: Sequence[Message], *, current_run: int = 9, masked_before_run: int = 0) -> list[bytes]:
    sent = wire("system", repair(messages), current_run=current_run, masked_before_run=masked_before_run)
    assert violations(sent) == []
    return [json.dumps(m, ensure_ascii=False).encode() for m in sent]


@QUICK
@given(ROWS, st.integers(0, 6), st.integers(0, 6))
def test_any_stored_rows_make_a_valid_request(rows: list[Message], current_run: int, masked_before_run: int) -> None:
    as_bytes(rows, current_run=current_run, masked_before_run=masked_before_run)


@QUICK
@given(ROWS)
def test_what_is_repaired_needs_no_repair(rows: list[Message]) -> None:
    once = repair(rows)

    assert repair(once) == once


@QUICK
@given(REPLIES, st.integers(1, 10**18), st.integers(1, 100))
def test_any_reply_can_be_stored_and_replayed(reply: Reply, run_id: int, round_no: int) -> None:
    message, calls = normalise(reply, run_id, round_no)

    rows = [Message(run_id, Kind.OBSERVATION, "user", "facts"), message]
    results = [Message(run_id, Kind.TOOL_RESULT, "tool", "r", tool_call_id=call.id) for call in calls]
    assert repair([*rows, *results]) == (*rows, *results)
    as_bytes([*rows, *results], current_run=run_id)
    assert all((call.arguments is None) is (call.problem is not None) for call in calls)
    assert not (reply.cut_off and any(call.arguments is not None for call in calls))


def conversation(replies: Sequence[Reply]) -> list[Message]:
    """One run for each reply, as the loop would store it."""
    rows: list[Message] = []
    for run_id, reply in enumerate(replies, start=1):
        message, calls = normalise(reply, run_id, 1)
        rows += [Message(run_id, Kind.OBSERVATION, "user", f"facts of {run_id}"), message]
        rows += [
            Message(run_id, Kind.TOOL_RESULT, "tool", "r" * 50, tool_call_id=call.id, history_content="r")
            for call in calls
        ]
    return rows


@QUICK
@given(st.lists(REPLIES, min_size=1, max_size=5))
def test_a_cut_at_any_message_leaves_a_valid_request(replies: list[Reply]) -> None:
    rows = conversation(replies)

    for place in range(len(rows) + 1):
        as_bytes(rows[place:])
        as_bytes(rows[:place])
        as_bytes(rows[:place] + rows[place + 1 :])


@QUICK
@given(st.lists(REPLIES, min_size=1, max_size=5), REPLIES)
def test_what_comes_later_changes_no_byte_of_what_was_sent(replies: list[Reply], newest: Reply) -> None:
    rows = conversation(replies)
    later = conversation([*replies, newest])

    before = as_bytes([*rows, later[len(rows)]])

    assert as_bytes(later)[: len(before)] == before


@QUICK
@given(ROWS, st.lists(REPLIES, min_size=1, max_size=2))
def test_damaged_rows_are_mended_the_same_way_each_time(rows: list[Message], replies: list[Reply]) -> None:
    fed = Message(5, Kind.OBSERVATION, "user", "facts")
    answered = list(repair(rows))
    more = [Message(6, Kind.OBSERVATION, "user", "facts"), normalise(replies[0], 6, 1)[0]]

    before = as_bytes([*answered, fed])

    assert as_bytes([*answered, fed, *more])[: len(before)] == before
