"""What came back over the wire, read once: status, JSON if it is any, and a description that is safe to show."""

import html
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx

from fleetagent.adapters.vast.parse import number
from fleetagent.domain.model import JsonObject
from fleetagent.domain.text import neutral

LONGEST_CODE = 60
LONGEST_TEXT = 200
LONGEST_WAIT_S = 900.0
"""However long a 429 asks for: meanwhile machines bill unseen, and a try in a quarter of an hour burdens nobody."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `body` is the JSON value if `is_json`; `retry_after_seconds` is what a 429 asks for, if anything.

    `said` describes the whole for people: call, status, error code and text, secrets removed, shortened.
    """

    status: int
    is_json: bool
    body: Any = field(repr=False)
    code: str
    message: str
    said: str
    retry_after_seconds: float | None = None

    @property
    def fields(self) -> JsonObject:
        """The body if it is an object, else an empty one."""
        return self.body if isinstance(self.body, dict) else {}


def answer_in(response: httpx.Response, content: bytes, *, asked: str, secrets: Iterable[str], now: float) -> Answer:
    """Read the response to the call `asked`, at the epoch second `now`; it may repeat `secrets`, we may not."""
    text = content.decode("utf-8", "replace")
    try:
        body, is_json = json.loads(text), True
    except (ValueError, RecursionError):  # what is nested too deep is no answer of theirs either
        body, is_json = None, False
    fields = body if isinstance(body, dict) else {}
    texts = (fields.get(name) for name in ("msg", "message", "detail"))
    code = neutral(redact(_text(fields.get("error")), secrets), LONGEST_CODE)
    message = neutral(redact(" ".join(map(_text, texts)), secrets), LONGEST_TEXT)
    # Of JSON only these fields are shown: the rest may hold the keys and the environment of machines.
    shown = f"{code} {message}".strip() if is_json else neutral(redact(text, secrets), LONGEST_TEXT)
    return Answer(
        status=response.status_code,
        is_json=is_json,
        body=body,
        code=code,
        message=message,
        said=f"{asked} answered {response.status_code}" + (f": {shown}" if shown else ""),
        retry_after_seconds=_retry_after_seconds(response.headers.get("Retry-After"), fields.get("retry_after"), now),
    )


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret replaced by stars, as it is or escaped; the longest go first, one may hold another."""
    forms = {form for secret in filter(None, secrets) for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def _forms(secret: str) -> tuple[str, ...]:
    in_json = json.dumps(secret)[1:-1]
    return secret, in_json, in_json.replace("/", "\\/"), html.escape(secret), quote(secret, safe=""), quote(secret)


def _retry_after_seconds(header: str | None, named: Any, now: float) -> float | None:
    """Seconds from the header or the body, or a date in the header; None when none of them makes sense."""
    seconds = number(header) if number(header) is not None else number(named)
    if seconds is None and header:
        try:
            then = parsedate_to_datetime(header)
            seconds = then.replace(tzinfo=then.tzinfo or UTC).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return None if seconds is None else min(max(0.0, seconds), LONGEST_WAIT_S)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
