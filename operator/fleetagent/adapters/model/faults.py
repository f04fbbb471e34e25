"""Reads what a server says went wrong, in any of the shapes that servers use. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.adapters.model.answers import OK, Answer

LONGEST_MESSAGE_CHARS = 8_000
LONGEST_STREAM_CHARS = 1_000_000
LONGEST_COUNT_DIGITS = 12
TAGS = re.compile(r"(?s)<(script|style)\b.*?</\1>|<[/!a-zA-Z][^>]*>")
ERROR_STATUSES = range(400, 600)


@dataclass(frozen=True, slots=True)
class Fault:
    """One failed answer. `kind` and `code` are lower case, `param` and `message` as the server wrote them.

    `status` is the HTTP status, or the one that the body names when an error comes inside a 200.
    """

    status: int
    message: str
    kind: str = ""
    code: str = ""
    param: str = ""
    bare: bool = False
    """The body was empty, plain text or HTML."""
    prompt_tokens: int | None = None
    limit_tokens: int | None = None
    should_retry: str = ""
    """The header x-should-retry."""

    @property
    def words(self) -> str:
        """What phrases are searched in: the server's sentence alone, since bodies may echo the conversation."""
        return self.message.lower()


def fault_in(answer: Answer) -> Fault | None:
    """What is wrong with this answer, or None for a body that should hold choices."""
    body = answer.json if answer.json is not None else _streamed_error(answer.text)
    should_retry = answer.headers.get("x-should-retry", "").lower()
    if not isinstance(body, dict | list):
        if answer.is_ok:
            return None
        words = body if isinstance(body, str) else TAGS.sub(" ", answer.text[:LONGEST_MESSAGE_CHARS])
        return Fault(answer.status, " ".join(words.split()), bare=True, should_retry=should_retry)
    error = _error_in(body[0] if isinstance(body, list) and body else body)  # Gemini's mirror wraps it in a list
    if error is None:
        if answer.is_ok:
            return None
        error = {"message": answer.text}
    return Fault(
        status=_status(answer.status, error),
        message="; ".join(_sentences(error))[:LONGEST_MESSAGE_CHARS],
        kind=_word(error.get("type")).lower(),
        code=_word(error.get("code")).lower(),
        param=_param(error),
        prompt_tokens=_count(error.get("n_prompt_tokens")),
        limit_tokens=_count(error.get("n_ctx")),
        should_retry=should_retry,
    )


def _streamed_error(text: str) -> Any:
    """The first event that holds an error, should the server stream all the same: `data: {"error": …}`."""
    for line in text[:LONGEST_STREAM_CHARS].splitlines():
        if line.startswith("data:"):
            try:
                event = json.loads(line.removeprefix("data:"))
            except (ValueError, RecursionError):
                continue
            if _error_in(event) is not None:
                return event
    return None


def _error_in(body: Any) -> Mapping[str, Any] | None:
    """The error object of a body: nested, flat, a string, FastAPI's detail, or inside a choice."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict) and error:
        return error
    if isinstance(error, str) and error:
        return {**body, "message": error}
    if body.get("choices"):
        return _error_in_choice(body["choices"])
    if (
        error is True
        or body.get("object") == "error"
        or any(body.get(name) for name in ("message", "msg", "detail", "errors"))
    ):
        return body
    return None


def _error_in_choice(choices: Any) -> Mapping[str, Any] | None:
    first = choices[0] if isinstance(choices, list) else None
    error = first.get("error") if isinstance(first, dict) else None
    return error if isinstance(error, dict) and error else None


def _sentences(error: Mapping[str, Any]) -> Iterator[str]:
    """The words meant for people; never the `input` that FastAPI echoes, which is the conversation itself."""
    for name in ("message", "msg", "detail", "errors"):
        yield from _texts(error.get(name))
    metadata = error.get("metadata")
    if isinstance(metadata, dict):
        yield from _texts(metadata.get("raw"))  # OpenRouter: what the provider behind it said


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        loc = value.get("loc")
        where = ".".join(map(str, loc)) if isinstance(loc, list) else ""
        yield from (f"{where}: {text}" if where else text for text in _texts(value.get("msg") or value.get("message")))


def _status(status: int, error: Mapping[str, Any]) -> int:
    """An error inside a 200 often names its status as `code`; without one it counts as the server's failure."""
    if status not in OK:
        return status
    for name in ("code", "status", "status_code"):
        inner = _count(error.get(name))
        if inner is not None and inner in ERROR_STATUSES:
            return inner
    return 500


def _param(error: Mapping[str, Any]) -> str:
    """The field that is refused; FastAPI names it in `detail[0].loc`."""
    detail = error.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        loc = detail[0].get("loc")
        return str(loc[-1]) if isinstance(loc, list) and loc else ""
    return _word(error.get("param"))


def _word(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _count(value: Any) -> int | None:
    text = _word(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_COUNT_DIGITS else None
