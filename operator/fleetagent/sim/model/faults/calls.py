"""Tool calls that are not where, or what, they should be."""

import json
from collections.abc import Callable
from typing import Any

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.replies import Answer, nested_error, tool_call

MANY = 200


def _hermes(call: dict[str, Any]) -> str:
    function = call["function"]
    return json.dumps({"name": function["name"], "arguments": json.loads(function["arguments"])})


def _qwen(call: dict[str, Any]) -> str:
    function = call["function"]
    arguments = json.loads(function["arguments"])
    parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items())
    return f"<function={function['name']}>\n{parameters}</function>"


def _as_text(moment: Moment, write: Callable[[dict[str, Any]], str], *, opener: str = "<tool_call>\n") -> str:
    return "\n".join(f"{opener}{write(call)}\n</tool_call>" for call in moment.calls)


def _in_text(moment: Moment, text: str) -> Answer:
    return moment.completed({"content": text, "tool_calls": None})


def _in_thoughts(moment: Moment, write: Callable[[dict[str, Any]], str], field: str) -> Answer:
    thoughts = f"The fleet must be looked at first.\n{_as_text(moment, write)}"
    return moment.completed({"content": "", "tool_calls": None, field: thoughts})


def _with_ids(moment: Moment, name_of: Callable[[int], str | None]) -> Answer:
    calls = [dict(call) for call in moment.calls]
    for index, call in enumerate(calls):
        new = name_of(index)
        if new is None:
            del call["id"]
        else:
            call["id"] = new
    return moment.with_calls(calls)


def _twice(moment: Moment) -> Answer:
    """One id for two calls of one message."""
    first = moment.calls[0]
    return moment.with_calls([first, *[{**call, "id": first["id"]} for call in (moment.calls[1:] or [first])]])


def _named(moment: Moment, rename: Callable[[str], str]) -> Answer:
    calls = [
        {**call, "function": {**call["function"], "name": rename(call["function"]["name"])}} for call in moment.calls
    ]
    return moment.with_calls(calls)


def _parallel(moment: Moment, times: int) -> Answer:
    """The same calls over and over, each with an id of its own."""
    functions = [call["function"] for call in moment.calls]
    return moment.with_calls([tool_call(f["name"], f["arguments"]) for _ in range(times) for f in functions])


def _history(message: str) -> Answer:
    return nested_error(400, message, kind="invalid_request_error", param="messages.[2].role")


ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
    " The following tool_call_ids did not have response messages: call_1"
)
RESPONSES = "No tool call found for function call output with call_id call_1."

FAULTS = (
    Fault("A24", "LM Studio", "calls without an id", lambda m: _with_ids(m, lambda _: "")),
    Fault("A24/missing", "others", "calls whose id is not even there", lambda m: _with_ids(m, lambda _: None)),
    Fault("A25", "Xinference", "one id for every call", lambda m: _with_ids(m, lambda _: "call_0")),
    Fault("A25/twice", "llama.cpp, one build", "one id twice in a message", _twice),
    Fault(
        "A25/replayed",
        "OpenAI",
        "what it says when that is sent back",
        lambda _: _history("Duplicate value for 'tool_call_id' of 'call_0'"),
    ),
    Fault("A26", "OpenAI", "a result without its call, sent back", lambda _: _history(ORPHAN)),
    Fault("A26/unanswered", "OpenAI", "a call without its result, sent back", lambda _: _history(UNANSWERED)),
    Fault("A26/responses", "OpenAI", "the same in another API's words", lambda _: _history(RESPONSES)),
    Fault("A27", "Ollama", "calls as text, JSON", lambda m: _in_text(m, _as_text(m, _hermes))),
    Fault(
        "A27/qwen", "Ollama", "calls as text, XML, closer alone", lambda m: _in_text(m, _as_text(m, _qwen, opener=""))
    ),
    Fault("A27/qwen-whole", "Ollama", "calls as text, XML", lambda m: _in_text(m, _as_text(m, _qwen))),
    Fault(
        "A27/closer",
        "Ollama",
        "calls as text, JSON, closer alone",
        lambda m: _in_text(m, _as_text(m, _hermes, opener="")),
    ),
    Fault(
        "A27/quoted",
        "any",
        "a call in the middle of an explanation: none is meant",
        lambda m: _in_text(m, f"One would write this:\n```\n{_as_text(m, _hermes)}\n```\nThere is nothing to do."),
    ),
    Fault("A28", "vLLM", "calls inside the thoughts, XML", lambda m: _in_thoughts(m, _qwen, "reasoning")),
    Fault(
        "A28/hermes", "vLLM", "calls inside the thoughts, JSON", lambda m: _in_thoughts(m, _hermes, "reasoning_content")
    ),
    Fault("A29d", "any", "a tool that is not there", lambda m: _named(m, lambda name: f"{name}s")),
    Fault("A29d/namespaced", "any", "a tool with a namespace", lambda m: _named(m, lambda name: f"functions.{name}")),
    Fault("A29d/spaces", "any", "a tool with spaces", lambda m: _named(m, lambda name: name.replace("_", " "))),
    Fault("A29d/empty", "any", "a tool without a name", lambda m: _named(m, lambda _: "")),
    Fault("A29e", "many", "several calls at once", lambda m: _parallel(m, 3)),
    Fault("A29e/many", "many", "hundreds of calls at once", lambda m: _parallel(m, MANY)),
)
