"""Finds tool calls that a model wrote as text because its server has no parser for them. Pure and strict.

Only model output is read, only whole blocks at its very end count, only tools that were offered, only arguments that
have the declared names and types; if one block is wrong, none counts.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleetagent.domain.model import JsonObject, RawCall, Reply

log = logging.getLogger(__name__)

BLOCK = (
    r"(?:<tool_call>\s*)?(?P<json>\{.*?\})\s*</tool_call>"
    r"|(?:<tool_call>\s*)?<function=(?P<name>[\w.-]+)>(?P<inside>.*?)</function>(?:\s*</tool_call>)?"
)
ONE_BLOCK = re.compile(rf"(?s)\s*(?:{BLOCK})\s*")
FIRST_MARK = re.compile(r"<tool_call>|<function=|\{(?=[^<]*</tool_call>)")
PARAMETER = re.compile(r"(?s)<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>")
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def with_calls_from_text(reply: Reply, tools: Sequence[JsonObject]) -> Reply:
    """The reply with the calls that stand in its text, or in its reasoning when it has no text; else as it is."""
    source = reply.text or reply.reasoning
    if reply.calls or reply.cut_off or not tools or "</" not in source:
        return reply
    found = _trailing_calls(source, {_function(tool).get("name"): _function(tool) for tool in tools})
    if found is None:
        return reply
    words, calls = found
    log.warning("took %d tool call(s) from text: the server's tool parser does not fit the model", len(calls))
    return replace(reply, text=words if reply.text else "", calls=calls)


def _trailing_calls(source: str, offered: Mapping[Any, JsonObject]) -> tuple[str, tuple[RawCall, ...]] | None:
    mark = FIRST_MARK.search(source)
    if not mark:
        return None
    calls, position = [], mark.start()
    while position < len(source):
        block = ONE_BLOCK.match(source, position)
        call = _call(block, offered) if block else None
        if block is None or call is None:
            return None
        calls.append(call)
        position = block.end()
    return source[: mark.start()].strip(), tuple(calls)


def _call(block: re.Match[str], offered: Mapping[Any, JsonObject]) -> RawCall | None:
    """The call in one block, if its tool was offered and its arguments have the declared names and types."""
    if block["json"]:
        stated = _json(block["json"])
        name = stated.get("name") if isinstance(stated, dict) else None
        arguments = stated.get("arguments") if isinstance(stated, dict) else None
    else:
        name = block["name"]
        arguments = _untyped(block["inside"], offered.get(name, {}))
    if (
        not isinstance(name, str)
        or name not in offered
        or not isinstance(arguments, dict)
        or not _fits(arguments, offered[name])
    ):
        return None
    return RawCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False))


def _untyped(inside: str, function: JsonObject) -> JsonObject | None:
    """Qwen's XML has no types: the declared one says whether a value is text or JSON."""
    if PARAMETER.sub("", inside).strip():
        return None
    values: JsonObject = {}
    for name, text in PARAMETER.findall(inside):
        if name in values:
            return None
        types = _types(_properties(function).get(name))
        value = text if str in types else _json(text.strip())
        values[name] = text if value is NO_JSON and object in types else value
    return values


def _fits(arguments: JsonObject, function: JsonObject) -> bool:
    declared = _properties(function)
    required = function.get("parameters", {}).get("required") or ()
    return all(name in arguments for name in required) and all(
        name in declared and _has_type(value, _types(declared[name])) for name, value in arguments.items()
    )


def _has_type(value: Any, types: tuple[type, ...]) -> bool:
    """A boolean is no number here, though Python says so."""
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types or object in types)


def _types(schema: Any) -> tuple[type, ...]:
    """The Python types of a property; anything goes where the schema declares none."""
    schema = schema if isinstance(schema, dict) else {}
    options = schema.get("anyOf") or [schema]
    names = [name for option in options for name in _as_list(option.get("type"))]
    return tuple(kind for name in names for kind in TYPES.get(name, ())) or (object,)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _properties(function: JsonObject) -> JsonObject:
    properties = function.get("parameters", {}).get("properties")
    return properties if isinstance(properties, dict) else {}


def _function(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    return function if isinstance(function, dict) else {}


def _json(text: str) -> Any:
    """The value, or a marker that fits no type: a plain None would pass for JSON's null."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return NO_JSON


NO_JSON: Any = ...
