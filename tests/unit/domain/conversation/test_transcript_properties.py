"""Whatever was stored, whatever a model said, wherever a crash or a compaction cut: the request is valid."""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleetagent.domain.conversation.calls import normalise
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.spoken import apart, spoken
from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.conversation.transcript import repair, wire
from fleetagent.domain.model import JsonObject, RawCall, Reply, Usage
from fleetagent.sim.model.personality import PERSONALITIES
from support.histories import ARGUMENTS, FACTS, REPLIES, ROW, ROWS, TEXT, conversation, refused

QUICK = settings(max_examples=40)
MANY = settings(max_examples=100)
ANY_RUN = st.integers(0, 9)


def sent(rows: Sequence[Message], *, current_run: int = 9, masked_before_run: int = 0) -> list[JsonObject]:
    """The request of a run that has seen these rows; its own facts end it, as they do in every run."""
    rows = [*rows, FACTS]
    return list(wire("system", repair(rows), current_run=current_run, masked_before_run=masked_before_run))


def as_bytes(rows: Sequence[Message], **shown: int) -> list[bytes]:
    """The bytes of a request that every server takes."""
    messages = sent(rows, **shown)
    assert violations(messages) == []
    return [json.dumps(m, ensure_ascii=False).encode() for m in messages]


def refused_by_anybody(messages: list[JsonObject]) -> dict[str, list[str]]:
    """What each kind of server refuses, by its name."""
    said = {name: refused(messages, personality) for name, personality in PERSONALITIES.items()}
    return {name: sentences for name, sentences in said.items() if sentences}


@MANY
@given(ROWS, ANY_RUN, ANY_RUN)
def test_any_stored_rows_make_a_request_that_each_kind_of_server_takes(
    rows: list[Message], current_run: int, masked_before_run: int
) -> None:
    messages = sent(rows, current_run=current_run, masked_before_run=masked_before_run)

    assert violations(messages) == []
    assert refused_by_anybody(messages) == {}


@QUICK
@given(st.lists(REPLIES, min_size=1, max_size=4), st.integers(0, 60), ANY_RUN)
def test_any_replies_make_a_request_that_each_kind_of_server_takes(
    replies: list[Reply], tool_result_chars: int, masked_before_run: int
) -> None:
    rows = conversation(replies, tool_result_chars)

    for current_run in (len(replies), len(replies) + 1):  # in the last run and after it
        messages = sent(rows, current_run=current_run, masked_before_run=masked_before_run)
        assert violations(messages) == []
        assert refused_by_anybody(messages) == {}


@MANY
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


@MANY
@given(ROWS, REPLIES)
def test_no_thought_and_no_end_of_turn_is_ever_shown_as_said(rows: list[Message], reply: Reply) -> None:
    for message in sent([*rows, normalise(reply, 8, 1)[0]]):
        if message["role"] == "assistant":
            assert spoken(message["content"]) == message["content"]
            assert "<think>" not in message["content"]
            assert "</think>" not in message["content"]
            assert "<|im_end|>" not in message["content"]


@MANY
@given(TEXT)
def test_words_hold_no_tag_and_are_found_once(text: str) -> None:
    said, thought = apart(text)

    assert spoken(said) == said
    assert apart(said)[1] == ""
    assert "think>" not in thought or "<" not in thought


@QUICK
@given(st.lists(REPLIES, min_size=1, max_size=5))
def test_a_cut_at_any_message_leaves_a_valid_request(replies: list[Reply]) -> None:
    rows = conversation(replies)

    for place in range(len(rows) + 1):
        as_bytes(rows[place:])
        as_bytes(rows[:place])
        as_bytes(rows[:place] + rows[place + 1 :])


@QUICK
@given(st.lists(REPLIES, min_size=1, max_size=5), REPLIES, ANY_RUN, ANY_RUN)
def test_what_comes_later_changes_no_byte_of_what_was_sent(
    replies: list[Reply], newest: Reply, current_run: int, masked: int
) -> None:
    rows = conversation(replies)
    later = conversation([*replies, newest])

    before = as_bytes(rows, current_run=current_run, masked_before_run=masked)
    after = as_bytes([*rows, FACTS, *later[len(rows) :]], current_run=current_run, masked_before_run=masked)

    assert after[: len(before)] == before


@MANY
@given(ROWS, st.lists(ROW, max_size=6), ANY_RUN, ANY_RUN)
def test_once_its_calls_are_answered_nothing_that_is_added_changes_what_was_sent(
    rows: list[Message], more: list[Message], current_run: int, masked: int
) -> None:
    answered = [*repair(rows), FACTS]  # damaged rows are mended the same way each time

    before = as_bytes(answered, current_run=current_run, masked_before_run=masked)[:-1]
    after = as_bytes([*answered, *more], current_run=current_run, masked_before_run=masked)

    assert after[: len(before)] == before


FLAWS: list[Any] = [
    None,
    "",
    " ",
    [],
    {},
    7,
    "\x00",
    "\ud800",
    "x" * 41,
    "a.b",
    "[]",
    "{",
    '{"a":NaN}',
    [{"type": "text"}],
]


def damage(messages: list[JsonObject], place: int, how: str, flaw: Any) -> None:
    """Break one message of a valid request in one way."""
    message = messages[place % len(messages)]
    calls = message.get("tool_calls")
    calls = calls if isinstance(calls, list) and calls and "function" in calls[0] else []
    match how:
        case "drop":
            messages.remove(message)
        case "double":
            messages.insert(place % len(messages), message)
        case "swap":
            messages.append(messages.pop(place % len(messages)))
        case "call" if calls:
            calls[0]["function"]["arguments"] = flaw
        case "name" if calls:
            calls[0]["function"]["name"] = flaw
        case "id" if calls:
            calls[0]["id"] = flaw
        case "answers" if "tool_call_id" in message:
            message["tool_call_id"] = flaw
        case "calls":
            message["tool_calls"] = flaw
        case "role":
            message["role"] = flaw
        case _:
            message["content"] = flaw


HOW = st.sampled_from(["drop", "double", "swap", "call", "name", "id", "answers", "calls", "role", "content"])
DAMAGE = st.lists(st.tuples(st.integers(0, 30), HOW, st.sampled_from(FLAWS)), max_size=3)


@settings(max_examples=300)
@given(st.lists(REPLIES, min_size=1, max_size=3), DAMAGE)
def test_the_last_look_refuses_whatever_a_strict_server_would(replies: list[Reply], damages: list[Any]) -> None:
    messages = deepcopy(sent(conversation(replies)))
    for place, how, flaw in damages:
        if messages:
            damage(messages, place, how, flaw)

    if refused(messages, PERSONALITIES["strict"]):
        assert violations(messages) != []


@MANY
@given(ARGUMENTS)
def test_what_was_executed_is_what_the_history_shows(arguments: str) -> None:
    reply = Reply("", (RawCall("act", arguments),), cut_off=False, usage=Usage(), finish_reason="stop")
    message, (call,) = normalise(reply, 8, 1)

    shown = json.loads(sent([message])[2]["tool_calls"][0]["function"]["arguments"])

    assert call.arguments is None or shown == call.arguments
