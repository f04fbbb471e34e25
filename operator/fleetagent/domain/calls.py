"""Replies: what a model said → what may be stored, and what of it may be executed."""

import re
from dataclasses import dataclass
from typing import Final

from fleetagent.domain.arguments import compact, diagnosis, parsed_arguments
from fleetagent.domain.messages import Kind, Message, ToolCall
from fleetagent.domain.model import JsonObject, RawCall, Reply
from fleetagent.domain.text import clean

NO_ANSWER: Final = "(no answer)"
"""Stands for a reply with neither text nor calls: servers refuse the replay of an empty one for ever."""

MAX_CALLS: Final = 16
UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")  # no dot: OpenAI refuses `functions.get_fleet` when it is replayed
_MAX_TEXT_CHARS = 32_000
_NAME_CHARS = 64
CUT_OFF: Final = "Your answer was cut off before its end, so none of its calls was executed. Call again, and say less."


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


def _spoken(text: str) -> str:
    """The text without thoughts that leaked into it: up to the last `</think>`, and from an unclosed `<think>` on."""
    return text.rpartition("</think>")[2].partition("<think>")[0]


def _call(raw: RawCall, call_id: str, *, cut_off: bool) -> tuple[ToolCall, Call]:
    name = fit_name(raw.name)
    problem = None
    if name != raw.name.strip():  # to guess which tool was meant could spend money
        problem = f"There is no tool named {clean(raw.name, _NAME_CHARS)!r}." if raw.name.strip() else "No tool named."
    arguments: JsonObject | None = None
    try:
        arguments = parsed_arguments(raw.arguments)
    except ValueError as error:
        problem = problem or f"The arguments of {name} {error}. Nothing was executed; call again with one JSON object."
    stored = compact(arguments if arguments is not None else diagnosis(raw.arguments))
    problem = CUT_OFF if cut_off else problem
    return ToolCall(call_id, name, stored), Call(call_id, name, None if problem else arguments, problem)


def fit_name(text: str) -> str:
    """The name as every server takes it back."""
    return UNFIT.sub("_", text.strip())[:_NAME_CHARS] or "unnamed"
