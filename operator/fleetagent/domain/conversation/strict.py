"""The last look before sending: what the strictest servers would refuse. `transcript` tells what comes before."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fleetagent.domain.arguments import no_number
from fleetagent.domain.model import JsonObject

LONGEST_ID: Final = 40
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def violations(messages: Sequence[JsonObject]) -> list[str]:
    """What the strictest servers would refuse, a sentence each; none when the request may be sent."""
    found = [f"message {place}: {what}" for place, m in enumerate(messages) for what in _flaws(m, first=place == 0)]
    if not any(m.get("role") == "user" for m in messages):
        found.append("there is no user message")
    if messages and messages[-1].get("role") not in ("user", "tool"):
        found.append("the last message leaves nothing to answer")
    found += [
        f"message {place}: a second assistant message in a row"
        for place, (one, two) in enumerate(itertools.pairwise(messages), start=1)
        if one.get("role") == two.get("role") == "assistant"
    ]
    return found + list(_pairing_flaws(messages))


def _flaws(message: JsonObject, *, first: bool) -> Iterator[str]:
    """What is wrong with one message by itself."""
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "user", "assistant", "tool"):  # it may be anything, also unhashable
        yield f"unknown role {role!r}"
    if (role == "system") is not first:
        yield "the first message must be the system message" if first else "a second system message"
    if not isinstance(content, str):
        yield "content is not a plain string"
    elif not content.strip():
        yield f"the {role} message is empty"
    if ("tool_call_id" in message) is not (role == "tool"):
        yield "a result names the call that it answers, and nothing else does"
    if "tool_calls" in message and (role != "assistant" or not _calls(message)):
        yield "tool_calls must be a list with calls, of an assistant message"
    for call in _calls(message):
        yield from _call_flaws(call)
    if text := re.search("[\x00\ud800-\udfff]", "".join(_strings(message))):
        yield f"it holds {text[0]!a}"


def _call_flaws(call: Any) -> Iterator[str]:
    """What is wrong with one call by itself."""
    if not isinstance(call, dict) or call.get("type") != "function" or not isinstance(call.get("function"), dict):
        yield "a call is no object with an id, a type and a function"
        return
    name, arguments = call["function"].get("name"), call["function"].get("arguments")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{name!r} cannot name a tool"
    if not isinstance(arguments, str) or not _spells_an_object(arguments):
        yield f"the arguments of {name!r} are not the text of a JSON object"


def _calls(message: JsonObject) -> list[Any]:
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def _pairing_flaws(messages: Sequence[JsonObject]) -> Iterator[str]:
    """Where calls and results do not stand together, one to one."""
    seen: set[str] = set()
    waiting: list[Any] = []
    for place, message in enumerate((*messages, {"role": "end"})):
        if message.get("role") == "tool":
            answered = message.get("tool_call_id")
            if answered in waiting:
                waiting.remove(answered)
            else:
                yield f"message {place}: the result of {answered!r} does not follow its call"
            continue
        if waiting:
            yield f"message {place}: unanswered before it: {', '.join(map(str, waiting))}"
        waiting = [call.get("id") for call in _calls(message) if isinstance(call, dict)]
        for call_id in waiting:
            if not isinstance(call_id, str) or not 0 < len(call_id) <= LONGEST_ID or call_id in seen:
                yield f"message {place}: the call id {call_id!r} is empty, too long or not unique"
            else:
                seen.add(call_id)


def _spells_an_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=no_number), dict)
    except (ValueError, RecursionError):
        return False


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(inner)
