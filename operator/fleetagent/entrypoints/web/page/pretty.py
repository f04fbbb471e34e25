"""JSON for people: indented, its numbers and strings exactly as they were written."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fleetagent.domain.text import cut

MOST_CHARS: Final = 200_000
"""Nobody reads more on a page; the export has all of it."""
LINE_CHARS: Final = 100
DEEPEST: Final = 40
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


@dataclass(frozen=True, slots=True)
class _Holder:
    """An object or a list; its items are texts, or `key: value` with a holder as the value."""

    opened: str
    items: tuple["tuple[str, _Holder | str]", ...]

    @property
    def closed(self) -> str:
        return "}" if self.opened == "{" else "]"


def pretty(text: str) -> str:
    """The same JSON with line breaks where a line would be long; any other text as it is. Both at most so long."""
    if len(text) > MOST_CHARS or text.lstrip()[:1] not in {"{", "["}:
        return cut(text, MOST_CHARS)
    try:
        json.loads(text)
        held = _read(_TOKEN.finditer(text), 0)
    except (ValueError, RecursionError):
        return text
    return "\n".join(_lines("", held, ""))


def _read(tokens: Iterator[re.Match[str]], depth: int) -> _Holder | str:
    """The next value; the text is known to be JSON."""
    mark = next(tokens)[0]
    return _holder(mark, tokens, depth) if mark in {"{", "["} else mark


def _holder(opened: str, tokens: Iterator[re.Match[str]], depth: int) -> _Holder:
    if depth > DEEPEST:
        raise RecursionError
    items: list[tuple[str, _Holder | str]] = []
    key, value = "", None
    for mark in (match[0] for match in tokens):
        if mark == ":":
            key, value = f"{value}: ", None
        elif mark in {",", "}", "]"}:
            if value is not None:
                items.append((key, value))
            key, value = "", None
            if mark != ",":
                break
        else:
            value = _holder(mark, tokens, depth + 1) if mark in {"{", "["} else mark
    return _Holder(opened, tuple(items))


def _flat(value: _Holder | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value.opened}{', '.join(key + _flat(item) for key, item in value.items)}{value.closed}"


def _lines(key: str, value: _Holder | str, indent: str) -> Iterator[str]:
    flat = _flat(value)
    if isinstance(value, str) or len(indent) + len(key) + len(flat) <= LINE_CHARS or not value.items:
        yield f"{indent}{key}{flat}"
        return
    yield f"{indent}{key}{value.opened}"
    last = len(value.items) - 1
    for place, (name, item) in enumerate(value.items):
        *before, end = _lines(name, item, f"{indent}  ")
        yield from before
        yield end if place == last else f"{end},"
    yield f"{indent}{value.closed}"
