"""The parameters beside the messages: unknown ones are refused, known ones have types and bounds."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleetagent.sim.model.conversation import Violation

FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _whole(low: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= low


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


PARAMETERS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "messages": (lambda _: True, ""),  # has rules of its own
    "tools": (lambda _: True, ""),  # likewise
    "tool_choice": (lambda _: True, ""),  # likewise
    "model": (lambda value: isinstance(value, str) and value != "", "a name"),
    "max_tokens": (_whole(1), "a whole number, at least 1"),
    "max_completion_tokens": (_whole(1), "a whole number, at least 1"),
    "temperature": (_number(0, 2), "a number from 0 to 2"),
    "top_p": (_number(0, 1), "a number from 0 to 1"),
    "top_k": (_whole(-1), "a whole number, at least -1"),
    "min_p": (_number(0, 1), "a number from 0 to 1"),
    "presence_penalty": (_number(-2, 2), "a number from -2 to 2"),
    "frequency_penalty": (_number(-2, 2), "a number from -2 to 2"),
    "repetition_penalty": (_number(0, 2), "a number from 0 to 2"),
    "seed": (_is(int), "a whole number"),
    "stop": (_is(str | list), "a string or a list of strings"),  # type: ignore[arg-type]  # isinstance takes unions
    "user": (_is(str), "a string"),
    "n": (lambda value: value == 1, "1: there is one answer"),
    "stream": (lambda value: value is False, "false: this server does not stream"),
    "parallel_tool_calls": (_is(bool), "true or false"),
    "response_format": (_is(dict), "an object"),
    "chat_template_kwargs": (_is(dict), "an object"),
}


def odd_parameters(body: Mapping[str, Any]) -> Iterator[Violation]:
    """Everything a strict server dislikes about a body, its messages aside."""
    for name, value in body.items():
        if name not in PARAMETERS:
            yield Violation("unknown_parameter", f"Unrecognized request argument supplied: {name}", name)
            continue
        fits, wanted = PARAMETERS[name]
        if not fits(value):
            yield Violation("parameter", f"`{name}` must be {wanted}", name)
    if "model" not in body:
        yield Violation("parameter", "you must provide a model parameter", "model")
    if "max_tokens" in body and "max_completion_tokens" in body:
        yield Violation("parameter", "`max_tokens` and `max_completion_tokens` exclude each other", "max_tokens")
    if "tools" in body:
        yield from _odd_tools(body["tools"])
    yield from _odd_use_of_tools(body)


def _odd_use_of_tools(body: Mapping[str, Any]) -> Iterator[Violation]:
    if "tools" not in body:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body:
                yield Violation("tools_missing", f"{name} is only allowed when tools are specified", name)
        return
    if "response_format" in body:  # real servers hold the decoder to JSON, and tool calls never come
        yield Violation("response_format_with_tools", "tools and response_format exclude each other", "response_format")
    choice = body.get("tool_choice", "auto")
    if choice in {"auto", "none", "required"} if isinstance(choice, str) else _names_a_tool(choice, body["tools"]):
        return
    yield Violation("tool_choice", "must be auto, none, required or one of the tools", "tool_choice")


def _names_a_tool(choice: object, tools: object) -> bool:
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or choice.get("type") != "function" or not isinstance(function, dict):
        return False
    return isinstance(tools, list) and any(
        isinstance(tool, dict)
        and isinstance(tool.get("function"), dict)
        and tool["function"].get("name") == function.get("name")
        for tool in tools
    )


def _odd_tools(tools: object) -> Iterator[Violation]:
    if not isinstance(tools, list) or not tools:
        yield Violation("tools", "[] is too short: leave `tools` out when there are none", "tools")
        return
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools.[{index}]"
        problem = _problem_of_tool(tool)
        if problem:
            yield Violation("tools", problem, where)
            continue
        name = tool["function"]["name"]
        if name in seen:
            yield Violation("tools", f"two tools are called {name!r}", f"{where}.function.name")
        seen.add(name)


def _problem_of_tool(tool: object) -> str | None:
    if not isinstance(tool, dict) or tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
        return 'a tool needs `type` "function" and `function`'
    function = tool["function"]
    extra = (tool.keys() - {"type", "function"}) | (function.keys() - {"name", "description", "parameters", "strict"})
    if extra:
        return f"Extra inputs are not permitted: {', '.join(sorted(extra))}"
    name = function.get("name")
    if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
        return f"{name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$"
    if not isinstance(function.get("description", ""), str):
        return "`description` must be a string"
    return _problem_of_schema(function.get("parameters"))


def _problem_of_schema(schema: object) -> str | None:
    """What is wrong with the schema of a tool's arguments, or None; inner schemas are the engine's affair."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return '`parameters` must be a JSON schema of type "object"'
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(inner, dict) for inner in properties.values()):
        return "`properties` must map names to schemas"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(name in properties for name in required):
        return "`required` must list names of `properties`"
    return None
