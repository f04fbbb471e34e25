"""Whatever may stand in the table of messages, and whatever a model may say: strategies for hypothesis."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from fleetagent.domain.conversation.alternation import alternating, without_system
from fleetagent.domain.conversation.calls import normalise
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.model import JsonObject, RawCall, Reply, Usage
from fleetagent.domain.text import cut
from fleetagent.sim.model.parse import read
from fleetagent.sim.model.personality import Personality

TAGS = ("</think>", "<think>", "<thinking>", "<|im_end|>", "</s>", "<tool_call>", "</tool_call>", "<function=")
CHARACTERS = st.characters(exclude_categories=())
TEXT = st.one_of(
    st.sampled_from(["", " ", ".", "ok", "\x00", "\ud800", "\ud83d\ude00", *TAGS]),
    st.lists(st.sampled_from([*TAGS, "a", " ", "\n"]), max_size=6).map("".join),
    st.text(CHARACTERS, max_size=30),
)
LONG_TEXT = st.builds(lambda text, times: text * times, TEXT, st.integers(1, 400))
IDS = st.one_of(st.sampled_from(["a", "b", "a_2", "r1_1_0", "", "x" * 50, "b!d"]), TEXT)
BROKEN = ("", "null", "{}", "[]", '"x"', '{"a":NaN}', '{"a":1,"a":2}', '{"a": 12', '"{}"', '{"a":1e999}', "\x00{")
ARGUMENTS = st.one_of(
    st.sampled_from(BROKEN),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps),
    st.integers(1, 9_000).map(lambda size: '{"a":"' + "\n" * size + '"}'),
    TEXT,
)
CALLS = st.lists(st.builds(ToolCall, id=IDS, name=TEXT, arguments=ARGUMENTS), max_size=3).map(tuple)
ROW = st.builds(
    Message,
    run_id=st.integers(1, 4),
    kind=st.sampled_from(Kind),
    role=st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
    content=TEXT | LONG_TEXT,
    tool_calls=CALLS,
    tool_call_id=st.none() | IDS,
    history_content=st.none() | TEXT,
)
ROWS = st.lists(ROW, max_size=12)
"""As an older version, a crash or a person at the database may have left them."""

REPLIES = st.builds(
    Reply,
    text=TEXT | LONG_TEXT,
    calls=st.lists(st.builds(RawCall, name=st.just("get_fleet") | TEXT, arguments=ARGUMENTS), max_size=20).map(tuple),
    cut_off=st.booleans(),
    usage=st.just(Usage()),
    finish_reason=st.sampled_from(["stop", "length", "tool_calls", ""]),
    unread=st.none() | st.just("since it is not whole"),
)

FACTS = Message(9, Kind.OBSERVATION, "user", "facts")


def conversation(replies: Sequence[Reply], tool_result_chars: int = 1) -> list[Message]:
    """One run for each reply, as the loop stores it."""
    rows: list[Message] = []
    for run_id, reply in enumerate(replies, start=1):
        message, calls = normalise(reply, run_id, 1)
        rows += [replace(FACTS, run_id=run_id, content=f"facts of {run_id}"), message]
        rows += [
            Message(
                run_id,
                Kind.TOOL_RESULT,
                "tool",
                "result " * 8,
                tool_call_id=call.id,
                history_content=cut("result " * 8, tool_result_chars),
            )
            for call in calls
        ]
    return rows


def refused(sent: Sequence[JsonObject], personality: Personality) -> list[str]:
    """What a server of this kind says to these messages, sent as its template wants them."""
    messages: Sequence[Any] = sent
    if "alternation" in personality.refuses:
        messages = alternating(messages)
    if "system_role" in personality.refuses:
        messages = without_system(messages)
    body = {"model": "m", "messages": json.loads(json.dumps(list(messages))), "max_tokens": 5}
    return [f"{v.rule} at {v.param}: {v.sentence}" for v in read(body, personality).violations]
