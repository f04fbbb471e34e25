"""Arguments that are broken, of the wrong type, or wrapped."""

import json
from typing import Any

from fleetagent.sim.model.faults.moment import Fault, Moment, encoded
from fleetagent.sim.model.replies import Answer, assistant, nested_error

MEGABYTE = 1_000_000
NUMBERS = ("number", "integer")
ANY = ("string", "number", "integer", "boolean", "array", "object")


def _cut(arguments: str) -> str:
    return arguments[: max(len(arguments) // 2, 1)]


def _misquoted(arguments: str) -> str:
    return arguments.replace('"', "'") if '"' in arguments else "{'offer_id': '42'}"


def _replayed(status: int, message: str, kind: str) -> Answer:
    return nested_error(status, message, kind=kind, code=status)


def _line_break(moment: Moment) -> Answer | None:
    """A bare line break inside a string."""
    found = moment.tool_with("string")
    if found is None:
        return None
    tool, parameter, arguments = found
    text = json.dumps({**arguments, parameter: "4@2"}).replace("@", "\n")
    return moment.with_calls(_calls_with(tool, text))


def _calls_with(tool: str, arguments: str) -> list[dict[str, Any]]:
    [call] = assistant(None, (tool, {})).message["tool_calls"]
    return [{**call, "function": {"name": tool, "arguments": arguments}}]


def _whole(moment: Moment, text: str) -> Answer:
    """Each call with just this text as its arguments."""
    return moment.with_arguments(lambda _: text)


def _as_string(moment: Moment, *types: str) -> Answer | None:
    """The value of the declared type, as JSON in a string."""
    found = moment.tool_with(*types)
    return moment.with_value(types, encoded(found[2][found[1]])) if found else None


def _changed(moment: Moment, wrap: str | None = None, **extra: Any) -> Answer | None:
    """A call with more arguments than declared, or with all of them one level deeper."""
    found = moment.tool_with(*ANY)
    if found is None:
        return None
    tool, _, arguments = found
    given = {**arguments, **extra}
    return moment.with_calls(_calls_with(tool, json.dumps({wrap: given} if wrap else given)))


UNTERMINATED = "Unterminated string starting at: line 1 column 14 (char 13)"
DELIMITER = "Expecting ',' delimiter: line 1 column 14 (char 13)"
LLAMA = "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1"

FAULTS = (
    Fault("A21", "vLLM", "arguments cut off", lambda m: m.with_arguments(_cut)),
    Fault("A21/length", "vLLM", "arguments cut off, and it says so", lambda m: m.with_arguments(_cut, "length")),
    Fault("A21/quotes", "any", "arguments in the wrong quotes", lambda m: m.with_arguments(_misquoted)),
    Fault(
        "A21/replayed",
        "vLLM",
        "what it says when they are sent back",
        lambda _: _replayed(400, UNTERMINATED, "BadRequestError"),
    ),
    Fault(
        "A21/replayed-delimiter",
        "vLLM",
        "the same in other words",
        lambda _: _replayed(400, DELIMITER, "BadRequestError"),
    ),
    Fault("A21/replayed-llama.cpp", "llama.cpp", "the same as a 500", lambda _: _replayed(500, LLAMA, "server_error")),
    Fault("A22", "any", "no arguments, as an empty text", lambda m: _whole(m, "")),
    Fault("A22/null", "any", "no arguments, as null", lambda m: m.with_arguments(lambda _: None)),
    Fault("A22/break", "any", "a bare line break in a string", _line_break),
    Fault("A23", "Qwen XML", "a number as a string", lambda m: _as_string(m, *NUMBERS)),
    Fault("A23/boolean", "Qwen XML", "a boolean as a string", lambda m: _as_string(m, "boolean")),
    Fault("A23/object", "Qwen3.6", "an object as a string", lambda m: _as_string(m, "object")),
    Fault("A23/array", "Qwen3.6", "an array as a string", lambda m: _as_string(m, "array")),
    Fault("A23/twice", "GLM", "all arguments encoded twice", lambda m: m.with_arguments(encoded)),
    Fault(
        "A23/for-string", "any", "an object where a string is due", lambda m: m.with_value(("string",), {"id": "42"})
    ),
    Fault("B13/cut", "any", "the end is missing", lambda m: _whole(m, '{"offer_id": 12')),
    Fault("B13/list", "any", "a list", lambda m: _whole(m, "[]")),
    Fault("B13/text", "any", "a text", lambda m: _whole(m, '"x"')),
    Fault("B13/null", "any", "the word null", lambda m: _whole(m, "null")),
    Fault("B13/nan", "any", "NaN", lambda m: _whole(m, '{"a": NaN}')),
    Fault("B13/twice", "any", "one key twice", lambda m: _whole(m, '{"offer_id": "1", "offer_id": "2"}')),
    Fault("B13/megabyte", "any", "a megabyte", lambda m: _whole(m, json.dumps({"reason": "x" * MEGABYTE}))),
    Fault("B13/json", "any", "JSON in JSON in JSON", lambda m: m.with_arguments(lambda text: encoded(encoded(text)))),
    Fault("B38/text", "Qwen", "a whole number as a text", lambda m: m.with_value(NUMBERS, "2")),
    Fault("B38/point", "Qwen", "a whole number as a text with a point", lambda m: m.with_value(("integer",), "2.0")),
    Fault("B38/fraction", "any", "a fraction for a whole number", lambda m: m.with_value(("integer",), 2.7)),
    Fault("B38/exponent", "any", "a number with an exponent, as a text", lambda m: m.with_value(("integer",), "1e3")),
    Fault("B38/null", "any", "the word null", lambda m: m.with_value(NUMBERS, "null")),
    Fault("B38/false", "Qwen", "a False as a text", lambda m: m.with_value(("boolean",), "False")),
    Fault("B38/negative", "any", "less than nothing", lambda m: m.with_value(NUMBERS, -1)),
    Fault("B38/huge", "any", "more than there is", lambda m: m.with_value(NUMBERS, 1e308)),
    Fault("B38/unit", "any", "a number with a unit", lambda m: m.with_value(NUMBERS, "0.35 $/hr")),
    Fault("B38/extra", "any", "arguments that nobody declared", lambda m: _changed(m, confidence=0.9)),
    Fault("B38/wrapped", "any", "all arguments inside `arguments`", lambda m: _changed(m, wrap="arguments")),
    Fault("B38/parameters", "any", "all arguments inside `parameters`", lambda m: _changed(m, wrap="parameters")),
)
