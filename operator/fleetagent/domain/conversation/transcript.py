"""Messages that are always valid on the wire, whatever a model said or a crash left behind.

The hygiene of the wire is one story in three places, all of them pure:
`calls.normalise` before storing: a reply → what may be stored of it, and what of it may be executed;
`transcript.repair` and `transcript.wire` when composing: whatever is stored → a valid sequence → the exact bytes;
`strict.violations` just before sending: what the strictest servers would refuse, which must be nothing.
They share `arguments` (the text of a call's arguments), `spoken` (words apart from thoughts) and `text` (the border
for all text); `declared` fits a call's arguments to its tool, and `alternation` serves templates that want turns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from fleetagent.domain.arguments import compact, stored_arguments
from fleetagent.domain.conversation.calls import NOTHING_SAID, UNFIT, fit_name
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.conversation.spoken import spoken
from fleetagent.domain.conversation.strict import LONGEST_ID
from fleetagent.domain.model import JsonObject
from fleetagent.domain.text import clean

LEFT_OUT: Final = "[left out]"
NO_RESULT: Final = "No result was recorded for this call: it may or may not have happened. Look before you repeat it."
NO_OUTPUT: Final = "(no output)"
OPENING: Final = "(What was said before this point is not shown.)"
SUMMARY_HEAD: Final = "Summary of earlier runs, written by the program or by you:\n"

_ROLES: Final[Mapping[Kind, str]] = {
    Kind.OBSERVATION: "user",
    Kind.FEEDBACK: "user",
    Kind.NUDGE: "user",
    Kind.SUMMARY: "user",
    Kind.REPLY: "assistant",
    Kind.TOOL_RESULT: "tool",
}


def prompt_rows(summary: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """What a request is made of, for `wire`: the summary of what has left the prompt, then what is in it, repaired."""
    head = [Message(0, Kind.SUMMARY, "user", SUMMARY_HEAD + summary)] if summary else []
    return repair([*head, *messages])


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
        renamed = _with(message, tool_calls=tuple(_renamed(message.tool_calls, ids)))
        if out and out[-1].role == renamed.role == "assistant":
            renamed = _merged(out.pop(), renamed)
        out.append(renamed)
        for index, call in enumerate(renamed.tool_calls):
            result = results.get((place, index)) or _no_result(message)
            out.append(_with(result, tool_call_id=call.id))
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


# Rows: what is stored → a valid sequence.


def _tidy(message: Message) -> Message:
    """Its kind decides its role, its text is clean and holds no thoughts, its calls can be replayed."""
    role = _ROLES[message.kind]
    words = _words if role == "assistant" else clean
    content = words(message.content)
    if role == "tool" and not content.strip():
        content = NO_OUTPUT
    history = None if message.history_content is None else words(message.history_content)
    calls = tuple(_replayable(call) for call in message.tool_calls) if role == "assistant" else ()
    tidied = role, content, history, calls
    if (message.role, message.content, message.history_content, message.tool_calls) == tidied:
        return message  # as almost every one is, each time that a request is composed
    return replace(message, role=role, content=content, history_content=history, tool_calls=calls)


def _with(message: Message, **values: Any) -> Message:
    """The message with these values; itself when it has them, as almost every one has: a copy costs ten times that."""
    same = all(getattr(message, name) == value for name, value in values.items())
    return message if same else replace(message, **values)


def _words(text: str) -> str:
    return spoken(clean(text))


@lru_cache(maxsize=2_048)
def _replayable(call: ToolCall) -> ToolCall:
    return replace(call, name=fit_name(call.name), arguments=compact(stored_arguments(call.arguments)))


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
        good = UNFIT.sub("_", call.id)
        new, number = good[:LONGEST_ID] or "call", 1
        while new in taken:
            number += 1
            new = f"{good[:28] or 'call'}_{number}"
        taken.add(new)
        yield call if new == call.id else replace(call, id=new)


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
