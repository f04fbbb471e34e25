"""Replies: what a model said → what may be stored, and what of it may be executed.

The first of three steps of the wire's hygiene; `transcript` tells the whole story.
"""

import re
from dataclasses import dataclass
from typing import Final

from fleetagent.domain.arguments import compact, diagnosis, parsed_arguments
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.conversation.spoken import CALL_MARK, spoken
from fleetagent.domain.model import JsonObject, RawCall, Reply
from fleetagent.domain.text import clean, cut

NO_ANSWER: Final = "(no answer)"
"""Stands for a reply with neither text nor calls: servers refuse the replay of an empty one for ever."""

NOTHING_SAID: Final = "."
"""The text beside tool calls when there is none to show. Some servers refuse null there, others the empty string,
others lists; all take a short text. One dot costs a token, and a model that imitates it has not answered."""

MAX_CALLS: Final = 16
UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")  # no dot: OpenAI refuses `functions.get_fleet` when it is replayed
_MAX_TEXT_CHARS = 32_000
_MAX_ORIGINAL_CHARS = 8_000
_NAME_CHARS = 64
_ANNOUNCE_CALLS = frozenset({"tool_calls", "function_call"})
_UNREADABLE = "(a call that could not be read)"
CUT_OFF: Final = "Your answer was cut off before its end, so none of its calls was executed. Call again, and say less."


@dataclass(frozen=True, slots=True)
class Call:
    """What the model asked for. With a `problem` it must not be executed: the problem is its result."""

    id: str
    name: str
    arguments: JsonObject | None
    problem: str | None = None


def normalise(reply: Reply, run_id: int, round_no: int) -> tuple[Message, tuple[Call, ...]]:
    """The reply as it may be stored and replayed, and its calls in order, at most `MAX_CALLS`.

    Thoughts are not kept anywhere. What the model wrote in place of a good call is kept for the audit: a call's
    arguments beside the call, an unreadable block of text in the message, where later runs see only that there was one.
    """
    calls = tuple(
        _call(raw, f"r{run_id}_{round_no}_{index}", cut_off=reply.cut_off)
        for index, raw in enumerate(reply.calls[:MAX_CALLS])
    )
    text = cut(spoken(clean(reply.text)).strip(), _MAX_TEXT_CHARS)
    if not calls and not text.strip(f" \n{NOTHING_SAID}…"):
        text = NO_ANSWER
    mark = CALL_MARK.search(text) if reply.unread or reply.cut_off else None
    message = Message(
        run_id,
        Kind.REPLY,
        "assistant",
        text,
        tool_calls=tuple(stored for stored, _ in calls),
        history_content=f"{text[: mark.start()]}{_UNREADABLE}" if mark else None,
    )
    return message, tuple(call for _, call in calls)


def told_beside(reply: Reply, *, has_verdict: bool) -> str | None:
    """What the model must be told apart from its calls' results: why words of it were not taken as an answer."""
    if reply.cut_off and not reply.calls:
        return CUT_OFF
    because = reply.unread
    if not reply.calls and not has_verdict and reply.finish_reason.lower() in _ANNOUNCE_CALLS:
        because = because or "your answer was to hold calls, and there were none"
    if because is not None:
        return f"Nothing was executed: {because}. Call through the tool interface, or end without a call."
    if (left_over := len(reply.calls) - MAX_CALLS) > 0:
        return f"One answer may hold {MAX_CALLS} calls: your other {left_over} were not executed."
    return None


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
    original = raw.written or (f"{raw.name} {raw.arguments}" if problem else None)
    stored = compact(arguments if arguments is not None else diagnosis(raw.arguments))
    problem = CUT_OFF if cut_off else problem
    return (
        ToolCall(call_id, name, stored, clean(original, _MAX_ORIGINAL_CHARS) if original else None),
        Call(call_id, name, None if problem else arguments, problem),
    )


def fit_name(text: str) -> str:
    """The name as every server takes it back."""
    return UNFIT.sub("_", text.strip())[:_NAME_CHARS] or "unnamed"
