"""Makes a domain Reply of the raw JSON of a completion, whatever the server's habits. Pure.

Nothing here trusts a type: `choices` may be missing, `content` may be a list, `arguments` an object, `usage` zero.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fleetagent.domain.conversation.spoken import apart
from fleetagent.domain.model import RawCall, Reply, Usage

CUT_OFF = frozenset(
    {"length", "max_tokens", "content_filter", "model_context_window_exceeded", "incomplete", "abort", "error"}
)
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
TEXT_PARTS = frozenset({"text", "output_text", "refusal"})
NESTING_LIMIT = 8
MOST_TOKENS = 1_000_000_000
"""Whoever reports more counts something else."""
LONGEST_FINISH_REASON_CHARS = 60

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def reply_in(body: Any, request_id: str | None = None) -> Reply | None:
    """The reply in a completion's body, perhaps an empty one; None when it has no choices.

    We ask for one choice. Some servers split it into two, words in one and calls in the other: the first of each
    counts, and calls of two choices are never added up.
    """
    choices = _choices(body)
    if not choices:
        return None
    messages = [_message(choice) for choice in choices]
    texts = [apart(_text(message.get("content")) or _text(message.get("refusal"))) for message in messages]
    calls = [tuple(_calls(message)) for message in messages]
    chosen = next((index for index, found in enumerate(calls) if found), 0)
    finish_reasons = [_finish_reason(choice) for choice in choices]
    return Reply(
        text=next((text for text, _ in texts if text), ""),
        calls=calls[chosen],
        cut_off=any(reason.lower() in CUT_OFF for reason in finish_reasons),
        usage=_usage(body, choices[0]),
        finish_reason=finish_reasons[chosen],
        reasoning=next(filter(None, map(_reasoning, messages)), "") or next((aside for _, aside in texts if aside), ""),
        request_id=request_id,
    )


def is_empty(reply: Reply) -> bool:
    """Neither words nor calls, nor an attempt at one: reasoning alone is no answer, and may not be stored as one."""
    return not reply.text and not reply.calls and reply.unread is None


def _choices(body: Any) -> list[Mapping[str, Any]]:
    choices = body.get("choices") if isinstance(body, dict) else None
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _message(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("message", "delta"):
        message = choice.get(name)
        if isinstance(message, dict):
            return message
    return {"content": choice.get("text")}


def _finish_reason(choice: Mapping[str, Any]) -> str:
    reason = choice.get("finish_reason")
    return _text(reason)[:LONGEST_FINISH_REASON_CHARS] if isinstance(reason, str) else ""


def _text(value: Any, depth: int = 0) -> str:
    """A string, a list of parts, or one part; parts that are no text (images, thoughts) are left out."""
    if isinstance(value, str):
        return UNSTORABLE.sub("\ufffd", value)
    if depth > NESTING_LIMIT:
        return ""
    if isinstance(value, list):
        return "".join(_text(part, depth + 1) for part in value)
    if isinstance(value, dict) and str(value.get("type", "text")) in TEXT_PARTS:
        inner = next((value[name] for name in ("text", "value", "content", "refusal") if value.get(name)), None)
        return _text(inner, depth + 1)
    return ""


def _reasoning(message: Mapping[str, Any]) -> str:
    """The first that is not empty: servers that send two of these fields send the same text twice."""
    for name in REASONING_FIELDS:
        text = _text(message.get(name)).strip()
        if text:
            return text
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    thoughts = (part.get("thinking") for part in parts if isinstance(part, dict) and part.get("type") == "thinking")
    return "".join(_text(thought) for thought in thoughts).strip()


def _calls(message: Mapping[str, Any]) -> Iterator[RawCall]:
    """The calls in order; `function_call` is the old form, read only when there is no other."""
    listed = message.get("tool_calls")
    entries = listed if isinstance(listed, list) else [listed] if isinstance(listed, dict) else []
    if not entries and isinstance(message.get("function_call"), dict):
        entries = [message["function_call"]]
    yield from (_call(entry) for entry in entries if entry)


def _call(entry: Any) -> RawCall:
    """One call; what can't be read as one keeps its text under no name, so that somebody answers it."""
    function = entry.get("function", entry) if isinstance(entry, dict) else None
    if not isinstance(function, dict):
        return RawCall(name="", arguments=_arguments(entry))
    name = function.get("name")
    return RawCall(name=_text(name).strip() if isinstance(name, str) else "", arguments=_arguments(function))


def _arguments(function: Any) -> str:
    """As text: some servers send the object itself, some null for none."""
    value = function.get("arguments") if isinstance(function, dict) else function
    if value is None:
        return ""
    return _text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _usage(body: Mapping[str, Any], first_choice: Mapping[str, Any]) -> Usage:
    """As far as the server counted: zero prompt tokens means that it did not. Moonshot counts in the choice."""
    found = next((u for u in (body.get("usage"), first_choice.get("usage")) if isinstance(u, dict) and u), {})
    details = found.get("prompt_tokens_details") or found.get("input_tokens_details")
    prompt = count_in(found.get("prompt_tokens") or found.get("input_tokens"))
    cached = next(
        (
            count
            for count in (
                _cached(details.get("cached_tokens")) if isinstance(details, dict) else None,
                _cached(found.get("prompt_cache_hit_tokens")),
                _cached(found.get("cached_tokens")),
            )
            if count is not None
        ),
        None,
    )
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=count_in(found.get("completion_tokens") or found.get("output_tokens")),
        cached_tokens=cached if cached is not None and prompt is not None and cached <= prompt else None,
    )


def _cached(value: Any) -> int | None:
    """Here zero is a count: nothing was found in the cache."""
    return 0 if value == 0 and isinstance(value, int) and not isinstance(value, bool) else count_in(value)


def count_in(value: Any) -> int | None:
    """A positive whole number, also when it is spelled 12.0; anything else is no count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value <= MOST_TOKENS and value == value // 1 else None
