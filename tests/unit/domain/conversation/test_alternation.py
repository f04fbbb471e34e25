"""Histories for templates that want turns, or know no system role: no word lost, always valid, stable at the front."""

import json
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.conversation.alternation import alternating, without_system
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.conversation.transcript import repair, wire
from fleetagent.domain.model import JsonObject
from fleetagent.sim.model.parse import read
from fleetagent.sim.model.personality import PERSONALITIES

TEXT = st.sampled_from(["facts", "a wish", "hold", "…"]) | st.text("abc é\n", min_size=1, max_size=12)


def said(role: str, content: str) -> JsonObject:
    return {"role": role, "content": content}


def calling(content: str, *ids: str) -> JsonObject:
    calls = [{"id": i, "type": "function", "function": {"name": "get_fleet", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str, content: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@st.composite
def histories(draw: st.DrawFn) -> tuple[JsonObject, ...]:
    """What `wire` can give: anything stored, repaired, with calls that are answered and the model's turn at the end."""
    rows: list[Message] = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from([Kind.OBSERVATION, Kind.FEEDBACK, Kind.NUDGE, Kind.SUMMARY, Kind.REPLY]))
        ids = [f"c{number}_{index}" for index in range(draw(st.integers(0, 2)))] if kind is Kind.REPLY else []
        calls = tuple(ToolCall(i, "get_fleet", "{}") for i in ids)
        rows.append(Message(1, kind, "", draw(TEXT), tool_calls=calls))
        answered = ids[: draw(st.integers(0, len(ids)))]
        rows += [Message(1, Kind.TOOL_RESULT, "", draw(TEXT), tool_call_id=call_id) for call_id in answered]
    rows.append(Message(2, Kind.OBSERVATION, "", f"facts {draw(TEXT)}"))
    return wire("rules", repair(rows), current_run=draw(st.integers(1, 3)), masked_before_run=draw(st.integers(0, 2)))


def turns(messages: Sequence[JsonObject]) -> list[str]:
    return [m["role"] for m in messages if m["role"] in {"user", "assistant"} and not m.get("tool_calls")]


def texts_lost(before: Sequence[JsonObject], after: Sequence[JsonObject]) -> list[str]:
    whole = "\x00".join(m["content"] for m in after)
    return [m["content"] for m in before if m["content"] not in whole]


def test_what_alternates_already_stays_as_it_is() -> None:
    messages = (
        said("system", "rules"),
        said("user", "facts"),
        calling(".", "a"),
        result("a", "none"),
        said("assistant", "hold"),
        said("user", "facts again"),
    )

    assert alternating(messages) == messages


def test_neighbours_of_one_role_become_one_message() -> None:
    messages = (
        said("system", "rules"),
        said("user", "summary"),
        said("user", "facts"),
        said("assistant", "let me look"),
        calling(".", "a"),
        result("a", "none"),
        said("assistant", "hold"),
    )

    assert alternating(messages) == (
        said("system", "rules"),
        said("user", "summary\n\nfacts"),
        calling("let me look\n\n.", "a"),
        result("a", "none"),
        said("assistant", "hold"),
    )


def test_results_that_nobody_took_up_are_followed_by_a_word_of_the_assistant() -> None:
    messages = (said("user", "facts"), calling(".", "a"), result("a", "none"), said("user", "facts again"))

    assert [m["role"] for m in alternating(messages)] == ["user", "assistant", "tool", "assistant", "user"]


def test_a_conversation_that_begins_with_the_assistant_gets_a_user_before_it() -> None:
    for first in (said("assistant", "hold"), calling(".", "a")):
        messages = [said("system", "rules"), first, *([result("a", "none")] if first.get("tool_calls") else [])]

        assert [m["role"] for m in alternating(messages)][:3] == ["system", "user", "assistant"]


@given(histories())
def test_any_history_takes_turns_and_loses_no_text(messages: tuple[JsonObject, ...]) -> None:
    before = json.dumps(messages)

    merged = alternating(messages)

    assert [one for one, two in pairwise(turns(merged)) if one == two] == []
    assert turns(merged)[:1] == ["user"]
    assert texts_lost(messages, merged) == []
    assert [m for m in merged if m["role"] == "tool"] == [m for m in messages if m["role"] == "tool"]
    assert violations(merged) == []
    assert alternating(merged) == merged
    assert json.dumps(messages) == before


@given(histories())
def test_servers_that_want_turns_or_no_system_message_take_any_history(messages: tuple[JsonObject, ...]) -> None:
    for personality, sent in {
        "alternating": alternating(messages),
        "no-system": without_system(messages),
        "gemma": without_system(alternating(messages)),
    }.items():
        reading = read({"model": "m", "messages": list(sent), "max_tokens": 5}, PERSONALITIES[personality])

        assert reading.violations == (), personality
        assert texts_lost(messages, sent) == []


@given(histories(), histories())
def test_what_is_added_changes_no_more_than_the_message_before_it(
    messages: tuple[JsonObject, ...], more: tuple[JsonObject, ...]
) -> None:
    longer = alternating([*messages, *more[1:]])

    assert longer[: len(alternating(messages)) - 1] == alternating(messages)[:-1]


def test_the_system_text_stands_at_the_head_of_the_first_user_message() -> None:
    rules, facts, hold = said("system", "rules"), said("user", "facts"), said("assistant", "hold")

    assert without_system((rules, facts, hold)) == (said("user", "rules\n\nfacts"), hold)
    assert without_system((rules, hold)) == (said("user", "rules"), hold)
    assert without_system((facts, hold)) == (facts, hold)
    assert without_system(()) == ()
