"""The arguments of a tool call: whatever text a model sends, what is kept is the text of a JSON object."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fleetagent.domain.model import JsonObject
from fleetagent.domain.text import clean, neutral

_MAX_ARGUMENT_CHARS = 8_000
_DIAGNOSIS_CHARS = 200
_MAX_DEPTH = 20
_MAX_DIGITS = 30


def parsed_arguments(text: str | None) -> JsonObject:
    """The JSON object that `text` spells, also when it is encoded twice; nothing at all is `{}`.

    `ValueError`, whose words finish the sentence "The arguments …", for everything else.
    """
    text = text or ""
    _check_length(text)
    value = decoded(text) if text.strip() else None
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = decoded(value)
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise ValueError("are not a JSON object")  # noqa: TRY004  # one way to say no to a text
    arguments: JsonObject = harmless(value)
    _check_length(compact(arguments))  # 1e15 and line breaks grow when they are written down again
    return arguments


def stored_arguments(text: str) -> JsonObject:
    """What the history shows for arguments that were stored once: themselves, or a diagnosis."""
    try:
        return parsed_arguments(text)
    except ValueError:
        return diagnosis(text)


def compact(arguments: JsonObject) -> str:
    """As it goes on the wire."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def diagnosis(text: str | None) -> JsonObject:
    """What stands in the history for arguments that no server would take back; the call keeps the original."""
    return {"invalid_arguments": neutral(text or "", _DIAGNOSIS_CHARS)}


def decoded(text: str) -> Any:
    """The JSON value that the whole text spells; `ValueError`, words for "The arguments …", when there is none."""
    with _in_words():
        return _DECODER.decode(text)


def decoded_at(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and where it ends; `ValueError` as above."""
    with _in_words():
        return _DECODER.raw_decode(text, start)


def _check_length(text: str) -> None:
    if len(text) > _MAX_ARGUMENT_CHARS:
        raise ValueError(f"are too long ({len(text):,} characters, at most {_MAX_ARGUMENT_CHARS:,})")


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except json.JSONDecodeError as error:
        raise ValueError(f"are not valid JSON ({error})") from error
    except RecursionError as error:
        raise ValueError("are nested too deeply") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("name one key twice")
    return found


def no_number(word: str) -> float:
    """Refuse NaN and Infinity, which Python reads and JSON does not know."""
    raise ValueError(f"hold {word}, which is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else no_number(digits[:20])


def _short(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else int(no_number(f"{digits[:_MAX_DIGITS]}…"))


_DECODER = json.JSONDecoder(
    strict=False,  # bare line breaks inside strings are common, and clear
    object_pairs_hook=_without_repeats,
    parse_constant=no_number,
    parse_float=_finite,
    parse_int=_short,
)


def harmless(value: Any, depth: int = 0) -> Any:
    """The same value with clean strings, at most `_MAX_DEPTH` deep; `ValueError` for what is deeper."""
    if depth > _MAX_DEPTH:
        raise ValueError("are nested too deeply")
    if isinstance(value, dict):
        return _without_repeats([(clean(key), harmless(inner, depth + 1)) for key, inner in value.items()])
    if isinstance(value, list):
        return [harmless(inner, depth + 1) for inner in value]
    return clean(value) if isinstance(value, str) else value
