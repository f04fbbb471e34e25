"""Messages that are always valid on the wire, whatever a model said or a crash left behind.

`normalise` before storing, `repair` and `wire` when composing, `violations` as the last look before sending.
"""

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fleetagent.domain.messages import Kind, Message, ToolCall
from fleetagent.domain.model import JsonObject, RawCall, Reply
from fleetagent.domain.text import clean, cut

NO_ANSWER: Final = "(no answer)"
"""Stands for a reply with neither text nor calls: servers refuse the replay of an empty one for ever."""

LEFT_OUT: Final = "[left out]"
NOTHING_SAID: Final = "."
"""The text beside tool calls when there is none to show. Some servers refuse null there, others the empty string,
others lists; all take a short text. One dot costs a token, and a model that imitates it does no harm."""

NO_RESULT: Final = "No result was recorded for this call: it may or may not have happened. Look before you repeat it."
NO_OUTPUT: Final = "(no output)"
OPENING: Final = "(What was said before this point is not shown.)"

MAX_CALLS: Final = 16
_MAX_ARGUMENT_CHARS = 8_000
_MAX_TEXT_CHARS = 32_000
_MAX_DEPTH = 20
_MAX_DIGITS = 30
_ID_CHARS = 40
_NAME_CHARS = 64
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")  # no dot: OpenAI refuses `functions.get_fleet` when it is replayed
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLES: Final[Mapping[Kind, str]] = {
    Kind.OBSERVATION: "user",
    Kind.FEEDBACK: "user",
    Kind.NUDGE: "user",
    Kind.SUMMARY: "user",
    Kind.REPLY: "assistant",
    Kind.TOOL_RESULT: "tool",
}
_CUT_OFF = "Your answer was cut off before its end, so none of its calls was executed. Call again, and say less."


@dataclass(frozen=True, slots=True)
class Call:
    """What the model asked for. With a `problem` it must not be executed: the problem is its result."""

    id: str
    name: str
    arguments: JsonObject | None
    problem: str | None = None


def normalise(reply: Reply, run_id: int, round_no: int, *, cut_off: bool = False) -> tuple[Message, tuple[Call, ...]]:
    """The reply as it may be stored and replayed, and its calls in order, at most `MAX_CALLS`."""
    cut_off = cut_off or reply.cut_off
    calls = tuple(
        _call(raw, f"r{run_id}_{round_no}_{index}", cut_off=cut_off)
        for index, raw in enumerate(reply.calls[:MAX_CALLS])
    )
    text = clean(_spoken(reply.text), _MAX_TEXT_CHARS).strip()
    if left_over := len(reply.calls) - len(calls):
        text = f"{text}\n({left_over} more calls than one answer may hold; not executed)".strip()
    message = Message(
        run_id,
        Kind.REPLY,
        "assistant",
        text or ("" if calls else NO_ANSWER),
        tool_calls=tuple(stored for stored, _ in calls),
    )
    return message, tuple(call for _, call in calls)


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same conversation as a valid one; what is valid already stays as it is.

    A call without a result gets one that says so, a result without a call is dropped. Once its calls are answered,
    nothing that is added later changes what stands before it, so that servers can reuse their prefix cache.
    """
    known = [_tidy(message) for message in messages]
    results = _results_by_call(known)
    ids: set[str] = set()
    out: list[Message] = []
    for place, message in enumerate(known):
        if message.role == "tool" or not (message.content.strip() or message.tool_calls):
            continue
        renamed = replace(message, tool_calls=tuple(_renamed(message.tool_calls, ids)))
        if out and out[-1].role == renamed.role == "assistant":
            renamed = _merged(out.pop(), renamed)
        out.append(renamed)
        for index, call in enumerate(renamed.tool_calls):
            result = results.get((place, index)) or _no_result(message)
            out.append(replace(result, tool_call_id=call.id))
    if not out or out[0].role != "user":  # Qwen's template wants a user message, Mistral's wants it first
        out.insert(0, Message(out[0].run_id if out else 0, Kind.NUDGE, "user", OPENING))
    return tuple(out)


def wire(
    system: str, messages: Sequence[Message], *, current_run: int, masked_before_run: int
) -> tuple[JsonObject, ...]:
    """The exact messages for the server; repaired rows in, always the same bytes out for the same rows.

    Earlier runs are shown as history keeps them. Their texts beside tool calls are not repeated: the call, its reason
    and its result say the same. Observations and results of runs before `masked_before_run` are left out.
    """
    return (
        {"role": "system", "content": clean(system)},
        *(_on_the_wire(m, in_history=m.run_id < current_run, masked=m.run_id < masked_before_run) for m in messages),
    )


def violations(messages: Sequence[JsonObject]) -> list[str]:
    """What the strictest servers would refuse, a sentence each; none when the request may be sent."""
    found = [f"message {place}: {what}" for place, m in enumerate(messages) for what in _flaws(m, first=place == 0)]
    if not any(m.get("role") == "user" for m in messages):
        found.append("there is no user message")
    found += [
        f"message {place}: a second assistant message in a row"
        for place, (one, two) in enumerate(itertools.pairwise(messages), start=1)
        if one.get("role") == two.get("role") == "assistant"
    ]
    return found + list(_pairing_flaws(messages))


# Replies: what the model sent → what may be stored.


def _spoken(text: str) -> str:
    """The text without thoughts that leaked into it: up to the last `</think>`, and from an unclosed `<think>` on."""
    return text.rpartition("</think>")[2].partition("<think>")[0]


def _call(raw: RawCall, call_id: str, *, cut_off: bool) -> tuple[ToolCall, Call]:
    name = _name(raw.name)
    problem = None
    if name != raw.name.strip():  # to guess which tool was meant could spend money
        problem = f"There is no tool named {clean(raw.name, _NAME_CHARS)!r}." if raw.name.strip() else "No tool named."
    arguments: JsonObject | None = None
    try:
        arguments = parsed_arguments(raw.arguments)
    except ValueError as error:
        problem = problem or f"The arguments of {name} {error}. Nothing was executed; call again with one JSON object."
    stored = _compact(arguments if arguments is not None else _diagnosis(raw.arguments))
    problem = _CUT_OFF if cut_off else problem
    return ToolCall(call_id, name, stored), Call(call_id, name, None if problem else arguments, problem)


def parsed_arguments(text: str | None) -> JsonObject:
    """The JSON object that `text` spells, also when it is encoded twice; nothing at all is `{}`.

    `ValueError`, whose words finish the sentence "The arguments …", for everything else.
    """
    text = text or ""
    if len(text) > _MAX_ARGUMENT_CHARS:
        raise ValueError(f"are too long ({len(text):,} characters, at most {_MAX_ARGUMENT_CHARS:,})")
    value = _decoded(text) if text.strip() else None
    for _ in range(2):  # encoded twice, encoded three times
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = _decoded(value)
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise ValueError("are not a JSON object")  # noqa: TRY004  # one way to say no to a text
    arguments: JsonObject = _harmless(value)
    return arguments


def _decoded(text: str) -> Any:
    try:
        return json.loads(
            text,
            strict=False,  # bare line breaks inside strings are common, and clear
            object_pairs_hook=_without_repeats,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_short,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"are not valid JSON ({error})") from error
    except RecursionError as error:
        raise ValueError("are nested too deeply") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("name one key twice")
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"hold {word}, which is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits[:20])


def _short(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else int(_no_number(f"{digits[:_MAX_DIGITS]}…"))


def _harmless(value: Any, depth: int = 0) -> Any:
    """The same value with clean strings, at most `_MAX_DEPTH` deep."""
    if depth > _MAX_DEPTH:
        raise ValueError("are nested too deeply")
    if isinstance(value, dict):
        return _without_repeats([(clean(key), _harmless(inner, depth + 1)) for key, inner in value.items()])
    if isinstance(value, list):
        return [_harmless(inner, depth + 1) for inner in value]
    return clean(value) if isinstance(value, str) else value


def _compact(arguments: JsonObject) -> str:
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _diagnosis(text: str | None) -> JsonObject:
    """What stands in the history for arguments that no server would take back."""
    return {"invalid_arguments": cut(clean(text or ""), 200)}


def _name(text: str) -> str:
    return _UNFIT.sub("_", text.strip())[:_NAME_CHARS] or "unnamed"


# Rows: what is stored → a valid sequence.


def _tidy(message: Message) -> Message:
    """Its kind decides its role, its text is clean, its calls can be replayed."""
    role = _ROLES[message.kind]
    content = clean(message.content)
    if role == "tool" and not content.strip():
        content = NO_OUTPUT
    history = None if message.history_content is None else clean(message.history_content)
    calls = tuple(_replayable(call) for call in message.tool_calls) if role == "assistant" else ()
    return replace(message, role=role, content=content, history_content=history, tool_calls=calls)


def _replayable(call: ToolCall) -> ToolCall:
    try:
        arguments = parsed_arguments(call.arguments)
    except ValueError:
        arguments = _diagnosis(call.arguments)
    return replace(call, name=_name(call.name), arguments=_compact(arguments))


def _results_by_call(messages: Sequence[Message]) -> dict[tuple[int, int], Message]:
    """The result of each call, by the place of its message and its own index; ids may repeat or be nonsense."""
    waiting: dict[str | None, list[tuple[int, int]]] = {}
    found: dict[tuple[int, int], Message] = {}
    for place, message in enumerate(messages):
        if message.role == "tool" and waiting.get(message.tool_call_id):
            # Of equal ids the newest message is meant, and within it the first call that waits.
            newest = waiting[message.tool_call_id][-1][0]
            key = next(key for key in waiting[message.tool_call_id] if key[0] == newest)
            waiting[message.tool_call_id].remove(key)
            found[key] = message
        for index, call in enumerate(message.tool_calls):
            waiting.setdefault(call.id, []).append((place, index))
    return found


def _renamed(calls: Iterable[ToolCall], taken: set[str]) -> Iterator[ToolCall]:
    """The calls with ids that a server takes and that no earlier call has; a good id stays."""
    for call in calls:
        good = _UNFIT.sub("_", call.id)
        new, number = good[:_ID_CHARS] or "call", 1
        while new in taken:
            number += 1
            new = f"{good[:28] or 'call'}_{number}"
        taken.add(new)
        yield replace(call, id=new)


def _merged(first: Message, second: Message) -> Message:
    """Two assistant messages as one; only the second can have calls, or results would stand between them."""
    history = None
    if not (first.history_content is None and second.history_content is None):
        history = _joined(
            first.content if first.history_content is None else first.history_content,
            second.content if second.history_content is None else second.history_content,
        )
    return replace(second, content=_joined(first.content, second.content), history_content=history)


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text.strip())


def _no_result(asking: Message) -> Message:
    return Message(asking.run_id, Kind.TOOL_RESULT, "tool", NO_RESULT)


# The wire.


def _on_the_wire(message: Message, *, in_history: bool, masked: bool) -> JsonObject:
    text = message.content
    if in_history and message.kind is not Kind.FEEDBACK:
        if masked and message.kind in {Kind.OBSERVATION, Kind.TOOL_RESULT}:
            text = LEFT_OUT
        elif message.history_content is not None:
            text = message.history_content
        elif message.tool_calls:
            text = NOTHING_SAID
    if not text.strip():
        text = NOTHING_SAID if message.tool_calls else LEFT_OUT
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
    if not message.tool_calls:
        return {"role": message.role, "content": text}
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for c in message.tool_calls
    ]
    return {"role": message.role, "content": text, "tool_calls": calls}


def _flaws(message: JsonObject, *, first: bool) -> Iterator[str]:
    """What is wrong with one message by itself."""
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    if role not in {"system", "user", "assistant", "tool"}:
        yield f"unknown role {role!r}"
    if (role == "system") is not first:
        yield "the first message must be the system message" if first else "a second system message"
    if not isinstance(content, str):
        yield "content is not a plain string"
    elif not content.strip():
        yield f"the {role} message is empty"
    if "tool_calls" in message and (role != "assistant" or not calls or not isinstance(calls, list)):
        yield "tool_calls must be a list with calls, of an assistant message"
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function", {})
        name, arguments = function.get("name"), function.get("arguments")
        if not _NAME.fullmatch(str(name)):
            yield f"{name!r} cannot name a tool"
        if not _spells_an_object(arguments):
            yield f"the arguments of {name!r} are not the text of a JSON object"
    if text := re.search("[\x00\ud800-\udfff]", "".join(_strings(message))):
        yield f"it holds {text[0]!a}"


def _pairing_flaws(messages: Sequence[JsonObject]) -> Iterator[str]:
    """Where calls and results do not stand together, one to one."""
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate((*messages, {"role": "end"})):
        if message.get("role") == "tool":
            answered = message.get("tool_call_id")
            if answered in waiting:
                waiting.remove(answered)
            else:
                yield f"message {place}: the result of {answered!r} does not follow its call"
            continue
        if waiting:
            yield f"message {place}: unanswered before it: {', '.join(waiting)}"
        waiting = [str(call.get("id", "")) for call in message.get("tool_calls") or []]
        for call_id in waiting:
            if call_id in seen or not 0 < len(call_id) <= _ID_CHARS:
                yield f"message {place}: the call id {call_id!r} is empty, too long or not unique"
            seen.add(call_id)


def _spells_an_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_no_number), dict)
    except (TypeError, ValueError):
        return False


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(inner)
