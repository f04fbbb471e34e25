"""Thoughts where an answer should be, beside it, or in it."""

from typing import Any

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.replies import Answer, nested_error

THOUGHTS = "The user wants the fleet on target. Let me think about which offers would be"


def _only(moment: Moment, *, content: str | None, field: str = "reasoning_content", finish: str = "length") -> Answer:
    return moment.completed({"content": content, field: THOUGHTS}, finish)


def _replayed(_: Moment) -> Answer:
    message = "Assistant message must contain either 'content' or 'tool_calls'!"
    return nested_error(400, message, kind="invalid_request_error", code=400)


def _beside(moment: Moment, **fields: str) -> Answer:
    """The usual reply, and thoughts in these fields."""
    return moment.completed({**moment.reply.message, **fields}, moment.reply.finish_reason)


def _said(moment: Moment) -> str:
    return str(moment.reply.message.get("content") or "Looked; nothing to do.")


def _in_content(moment: Moment, before: str, *, keeps_words: bool = True) -> Answer:
    """Thoughts at the front of the words; calls stay calls."""
    said = _said(moment) if keeps_words else ""
    message: dict[str, Any] = {**moment.reply.message, "content": f"{before}{said}"}
    return moment.completed(message, moment.reply.finish_reason)


def _swallowed(moment: Moment) -> Answer:
    """The parser lost the closing mark, so that the answer stands among the thoughts."""
    return moment.completed({"content": None, "reasoning": f"{THOUGHTS}\n\n{_said(moment)}"})


def _parts(moment: Moment, content: list[Any]) -> Answer:
    return moment.completed({**moment.reply.message, "content": content}, moment.reply.finish_reason)


FAULTS = (
    Fault("A20", "llama.cpp", "thoughts alone, cut off", lambda m: _only(m, content=None)),
    Fault(
        "A20/vllm",
        "vLLM",
        "thoughts alone beside an empty text",
        lambda m: m.completed({"content": "", "reasoning": THOUGHTS, "tool_calls": []}, "length"),
    ),
    Fault("A20/stop", "any", "thoughts alone, and it is done", lambda m: _only(m, content="", finish="stop")),
    Fault("A20/replayed", "llama.cpp", "what it says when that is sent back", _replayed),
    Fault("A29", "DeepSeek, llama.cpp", "thoughts beside the answer", lambda m: _beside(m, reasoning_content=THOUGHTS)),
    Fault("A29/reasoning", "vLLM", "the same under another name", lambda m: _beside(m, reasoning=THOUGHTS)),
    Fault("A29/text", "others", "the same under a third name", lambda m: _beside(m, reasoning_text=THOUGHTS)),
    Fault(
        "A29/both",
        "some",
        "the same under two names at once",
        lambda m: _beside(m, reasoning=THOUGHTS, reasoning_content=THOUGHTS),
    ),
    Fault(
        "A29b",
        "no reasoning parser",
        "thoughts and a lone closer",
        lambda m: _in_content(m, f"{THOUGHTS}\n</think>\n\n"),
    ),
    Fault(
        "A29b/unclosed",
        "no reasoning parser",
        "thoughts that never end",
        lambda m: m.completed({"content": f"<think>\n{THOUGHTS}"}, "length"),
    ),
    Fault("A29b/swallowed", "vLLM 0.26", "the parser swallowed the closer", _swallowed),
    Fault("A29c", "any", "content is a list of parts", lambda m: _parts(m, [{"type": "text", "text": _said(m)}])),
    Fault(
        "A29c/nested",
        "NIM",
        "the parts hold parts",
        lambda m: _parts(m, [{"type": "text", "text": [{"type": "text", "text": _said(m)}]}]),
    ),
    Fault(
        "A29c/thinking",
        "any",
        "one of the parts is a thought",
        lambda m: _parts(m, [{"type": "thinking", "thinking": THOUGHTS}, {"type": "text", "text": _said(m)}]),
    ),
    Fault(
        "B31/closed",
        "any",
        "a whole block of thoughts in the text",
        lambda m: _in_content(m, f"<think>{THOUGHTS}</think>"),
    ),
    Fault(
        "B31/only-closed",
        "any",
        "a whole block of thoughts and nothing else",
        lambda m: m.completed({"content": f"<think>{THOUGHTS}</think>"}),
    ),
    Fault("B31/length", "any", "cut off before the first word", lambda m: m.completed({"content": ""}, "length")),
)
