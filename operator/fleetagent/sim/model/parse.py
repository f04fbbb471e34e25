"""Reads a request body; whatever has the wrong shape is a violation, and nothing is guessed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.sim.model.conversation import ChatRequest, Message, ToolCall, Violation
from fleetagent.sim.model.parameters import FUNCTION_NAME, odd_parameters
from fleetagent.sim.model.personality import Personality
from fleetagent.sim.model.rules import broken_rules

MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
OFTEN_TAKEN = frozenset({"list_content"})
"""Shapes that only some servers refuse."""

NUL_OR_SURROGATE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a body says, and everything that is wrong with it; `request` is None when it can't be read at all."""

    request: ChatRequest | None
    violations: tuple[Violation, ...]


def read(body: object, personality: Personality) -> Reading:
    """Check one decoded body as this kind of server would."""
    if not isinstance(body, dict):
        return Reading(None, (Violation("not_json", "the body must be a JSON object"),))
    odd = [*_odd_characters(body), *odd_parameters(body), *_odd_messages(body.get("messages"))]
    odd = [violation for violation in odd if violation.rule not in OFTEN_TAKEN - personality.refuses]
    if odd:
        return Reading(None, tuple(odd))
    request = _request(body)
    return Reading(request, tuple(broken_rules(request.messages, personality)))


def _request(body: Mapping[str, Any]) -> ChatRequest:
    """The values of a body whose shape was found right."""
    choice = body.get("tool_choice", "auto")
    return ChatRequest(
        model=body["model"],
        messages=tuple(_message(message) for message in body["messages"]),
        tools=tuple(body.get("tools") or ()),
        tool_choice=choice if isinstance(choice, str) else choice["function"]["name"],
        parallel_tool_calls=body.get("parallel_tool_calls", True),
        max_tokens=body.get("max_tokens", body.get("max_completion_tokens")),
        fields=frozenset(body),
    )


def _message(message: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call.get("id") or "", call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    return Message(message["role"], _plain(message.get("content")), calls, message.get("tool_call_id", ""))


def _plain(content: Any) -> str | None:
    """Parts of text as servers join them that take a list."""
    if not isinstance(content, list):
        return content  # type: ignore[no-any-return]  # its shape was looked at
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _odd_messages(messages: object) -> Iterator[Violation]:
    if not isinstance(messages, list) or not messages:
        yield Violation("messages", "`messages` must be a list with at least one message", "messages")
        return
    for index, message in enumerate(messages):
        yield from _odd_message(message, f"messages.[{index}]")


def _odd_message(message: object, where: str) -> Iterator[Violation]:
    if not isinstance(message, dict):
        yield Violation("messages", "a message must be an object", where)
        return
    role = message.get("role")
    if not isinstance(role, str) or role not in MESSAGE_FIELDS:
        yield Violation("role", f"{role!r} is not one of {', '.join(MESSAGE_FIELDS)}", f"{where}.role")
        return
    for name in sorted(message.keys() - MESSAGE_FIELDS[role]):
        yield Violation("message_field", f"Extra inputs are not permitted: {name!r}", f"{where}.{name}")
    yield from _odd_content(role, message.get("content"), where)
    if "tool_calls" in message:
        yield from _odd_calls(message["tool_calls"], f"{where}.tool_calls")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield Violation("tool_call_id", "a tool message must say which call it answers", f"{where}.tool_call_id")


def _odd_content(role: str, content: object, where: str) -> Iterator[Violation]:
    if isinstance(content, str) or (content is None and role == "assistant"):
        return
    if isinstance(content, list):
        yield Violation("list_content", "`content` must be a string, not a list of parts", f"{where}.content")
    else:
        yield Violation("content", f"`content` must be a string, not {type(content).__name__}", f"{where}.content")


def _odd_calls(calls: object, where: str) -> Iterator[Violation]:
    if not isinstance(calls, list) or not calls:
        yield Violation("tool_calls", "[] is too short: leave `tool_calls` out when there are none", where)
        return
    for index, call in enumerate(calls):
        yield from _odd_call(call, f"{where}.[{index}]")


def _odd_call(call: object, where: str) -> Iterator[Violation]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or call.get("type") != "function" or not isinstance(function, dict):
        yield Violation("tool_calls", 'a call needs `id`, `type` "function" and `function`', where)
        return
    for name in sorted((call.keys() - {"id", "type", "function"}) | (function.keys() - {"name", "arguments"})):
        yield Violation("message_field", f"Extra inputs are not permitted: {name!r}", where)
    if not isinstance(call.get("id"), str | None):
        yield Violation("call_id_missing", "a call's `id` must be a string", f"{where}.id")
    name = function.get("name")
    if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
        yield Violation("call_name", f"{name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$", f"{where}.function.name")
    if not isinstance(function.get("arguments"), str):
        yield Violation("arguments", "`arguments` must be text of a JSON object", f"{where}.function.arguments")


def _odd_characters(value: object, where: str = "") -> Iterator[Violation]:
    """Look into every string, keys included: one NUL in a stored message would break each later request."""
    if isinstance(value, str):
        found = NUL_OR_SURROGATE.search(value)
        if found:
            rule = "nul" if found.group() == "\x00" else "lone_surrogate"
            yield Violation(rule, f"character U+{ord(found.group()):04X} can't be encoded", where or None)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _odd_characters(key, f"{where}.(key)".lstrip("."))
            yield from _odd_characters(inner, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _odd_characters(inner, f"{where}.[{index}]")
