"""A call's arguments as its tool declares them: one rule for all the ways in which models misspell types.

A text becomes another type only where that type is declared and the text spells just that: "2.0" is the integer 2,
"False" is false, "2.7" is no integer and "0.35 $/hr" no number. Strings stay strings; whole numbers become strings
where a string is declared, since ids look like numbers. A null leaves an optional argument out.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fleetagent.domain.arguments import decoded, parsed_arguments
from fleetagent.domain.model import JsonObject
from fleetagent.domain.text import neutral

_WRAPPERS = ("arguments", "parameters")
_ARTICLES = {"integer": "a whole number", "object": "an object", "array": "a list", "boolean": "true or false"}
_SHOWN_CHARS = 40
_NO_VALUE: Any = object()


def as_declared(arguments: JsonObject, function: JsonObject) -> JsonObject:
    """The arguments with the types that `function`, a tool in chat-completions form, declares; unknown names are kept.

    `ValueError`, a sentence that names the argument, for what is missing or is not of its type.
    """
    given = _unwrapped(arguments, function)
    properties, required = _properties(function), _required(function)
    fitted: JsonObject = {}
    for name, value in given.items():
        found = _fitted(name, value, _types(properties.get(name)), required=name in required)
        if found is not _NO_VALUE:
            fitted[name] = found
    for name in required:
        if name not in fitted:
            raise ValueError(f"{name} is missing")
    return fitted


def unknown_names(arguments: Mapping[str, Any], function: JsonObject) -> list[str]:
    """Which of these the tool does not declare."""
    return [neutral(name, _SHOWN_CHARS) for name in arguments if name not in _properties(function)]


def names(function: JsonObject) -> tuple[str, ...]:
    """The arguments that the tool declares, in order."""
    return tuple(_properties(function))


def _unwrapped(arguments: JsonObject, function: JsonObject) -> JsonObject:
    """What stands in `{"arguments": {…}}`, with or without the tool's name beside it, unless the tool declares such."""
    declared = _properties(function)
    wrapper = next((w for w in _WRAPPERS if w in arguments), None)
    about = set(arguments) - {"name", wrapper}
    if wrapper is None or about or not declared.keys().isdisjoint(arguments):
        return arguments
    if arguments.get("name", function.get("name")) != function.get("name"):
        return arguments
    inner = arguments[wrapper]
    try:
        return parsed_arguments(inner) if isinstance(inner, str) else inner if isinstance(inner, dict) else arguments
    except ValueError:
        return arguments


def _fitted(name: str, value: Any, types: Sequence[str], *, required: bool) -> Any:
    """The value as one of these types, or nothing for a null that stands for an argument left out."""
    read = _spelled(value, types) if isinstance(value, str) and types and "string" not in types else value
    if read is None and "null" not in types and (value is None or not required):
        return _NO_VALUE
    if not types:
        return read
    for kind in types:
        found = _as(kind, read)
        if found is not _NO_VALUE:
            return found
    wanted = " or ".join(_ARTICLES.get(kind, f"a {kind}") for kind in types)
    shown = neutral(value if isinstance(value, str) else repr(value), _SHOWN_CHARS)
    raise ValueError(f"{name} must be {wanted}, not {shown!r}")


def _spelled(text: str, types: Sequence[str]) -> Any:
    """What the text spells as JSON, truth and null in any case of letters; itself when it spells nothing."""
    word = text.strip()
    if "boolean" in types and word.lower() in {"true", "false"}:
        return word.lower() == "true"
    if word.lower() in {"null", "none"}:
        return None
    try:
        return decoded(word)
    except ValueError:
        return text


def _as(kind: str, value: Any) -> Any:
    """The value, if it is of this kind; a boolean is no number here, though Python says so."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    whole = number and value == math.floor(value)
    fits: Mapping[str, bool] = {
        "string": isinstance(value, str) or number,
        "integer": whole,
        "number": number,
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
        "null": value is None,
    }
    if not fits.get(kind, False):
        return _NO_VALUE
    if kind == "integer" or (kind == "string" and whole):
        value = int(value)
    return str(value) if kind == "string" else value


def _properties(function: JsonObject) -> JsonObject:
    properties = _parameters(function).get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(function: JsonObject) -> tuple[str, ...]:
    required = _parameters(function).get("required")
    return tuple(required) if isinstance(required, list) else ()


def _parameters(function: JsonObject) -> JsonObject:
    parameters = function.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def _types(schema: Any) -> list[str]:
    """The declared types of one argument; none when anything goes."""
    schema = schema if isinstance(schema, dict) else {}
    options = schema.get("anyOf") or [schema]
    kinds = [option.get("type") for option in options if isinstance(option, dict)]
    return [name for kind in kinds for name in (kind if isinstance(kind, list) else [kind]) if isinstance(name, str)]
