"""The last look before sending."""

import pytest

from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.model import JsonObject

SYSTEM: JsonObject = {"role": "system", "content": "s"}
USER: JsonObject = {"role": "user", "content": "u"}
RESULT: JsonObject = {"role": "tool", "tool_call_id": "a", "content": "r"}


def calling(*ids: str, name: str = "f", arguments: object = "{}", content: object = ".") -> JsonObject:
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


@pytest.mark.parametrize(
    ("messages", "flaw"),
    [
        ([USER], "first message must be the system"),
        ([SYSTEM, USER, SYSTEM], "second system"),
        ([SYSTEM], "no user message"),
        ([SYSTEM, {"role": "user", "content": " "}], "user message is empty"),
        ([SYSTEM, USER, {"role": "assistant", "content": ""}], "assistant message is empty"),
        ([SYSTEM, USER, {"role": "assistant", "content": None}], "plain string"),
        ([SYSTEM, {"role": "user", "content": [{"type": "text", "text": "u"}]}], "plain string"),
        ([SYSTEM, USER, calling("a", arguments="[]"), RESULT], "JSON object"),
        ([SYSTEM, USER, calling("a", arguments='{"a":NaN}'), RESULT], "JSON object"),
        ([SYSTEM, USER, calling("a", arguments={}), RESULT], "JSON object"),
        ([SYSTEM, USER, calling("a", name="functions.f"), RESULT], "cannot name a tool"),
        ([SYSTEM, USER, calling(), USER], "list with calls"),
        ([SYSTEM, USER, calling("a", "a"), RESULT, RESULT], "not unique"),
        ([SYSTEM, USER, calling("a"), RESULT, calling("a"), RESULT], "not unique"),
        ([SYSTEM, USER, calling("x" * 41), {**RESULT, "tool_call_id": "x" * 41}], "too long"),
        ([SYSTEM, USER, calling(""), {**RESULT, "tool_call_id": ""}], "empty"),
        ([SYSTEM, USER, RESULT], "does not follow"),
        ([SYSTEM, USER, calling("a"), RESULT, RESULT], "does not follow"),
        ([SYSTEM, USER, calling("a")], "unanswered"),
        ([SYSTEM, USER, calling("a"), USER, RESULT], "unanswered"),
        ([SYSTEM, USER, *[{"role": "assistant", "content": "x"}] * 2], "in a row"),
        ([SYSTEM, {"role": "user", "content": "a\x00"}], "x00"),
        ([SYSTEM, USER, calling("a", arguments='{"a":"\ud800"}'), RESULT], "ud800"),
        ([SYSTEM, USER, {"role": "developer", "content": "x"}], "unknown role"),
        ([SYSTEM, {"role": ["user"], "content": "x"}], "unknown role"),
        ([SYSTEM, USER, {"role": "assistant", "content": "done"}], "nothing to answer"),
        ([SYSTEM, {**USER, "tool_calls": calling("a")["tool_calls"]}, RESULT], "of an assistant message"),
        ([SYSTEM, {**USER, "tool_call_id": "a"}], "nothing else does"),
        ([SYSTEM, USER, {**calling("a"), "tool_calls": "a"}, RESULT], "list with calls"),
        ([SYSTEM, USER, {**calling("a"), "tool_calls": ["a"]}, RESULT], "no object"),
        ([SYSTEM, USER, {**calling("a"), "tool_calls": [{"id": "a", "function": {}}]}, RESULT], "no object"),
        ([SYSTEM, USER, calling("a", name=None), RESULT], "cannot name a tool"),  # type: ignore[arg-type]
        ([SYSTEM, USER, calling("a", arguments="[" * 5_000), RESULT], "JSON object"),
        ([SYSTEM, USER, calling("a", arguments=None), RESULT], "JSON object"),
    ],
)
def test_the_last_check_sees_what_a_strict_server_would_refuse(messages: list[JsonObject], flaw: str) -> None:
    assert any(flaw in found for found in violations(messages)), violations(messages)


def test_the_last_check_lets_a_valid_request_pass() -> None:
    messages = [SYSTEM, USER, calling("a"), RESULT, {"role": "assistant", "content": "done"}, USER]

    assert violations(messages) == []
