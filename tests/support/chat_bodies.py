"""Bodies of chat requests: each builder shows only what matters to a test."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

TOOL_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "get_fleet": (),
    "get_demand": (),
    "get_offers": (),
    "plan_capacity": (),
    "launch_instance": ("offer_id", "reason"),
    "stop_instance": ("instance_id", "reason"),
    "schedule_next_check": ("minutes", "reason"),
    "cancel_check": ("id",),
    "raise_alert": ("severity", "message"),
}


def tool(name: str, *arguments: str) -> Json:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string"} for argument in arguments},
        "required": list(arguments),
    }
    return {"type": "function", "function": {"name": name, "description": f"do {name}", "parameters": parameters}}


def all_tools() -> list[Json]:
    return [tool(name, *arguments) for name, arguments in TOOL_ARGUMENTS.items()]


def system(text: str = "You keep a fleet on target.") -> Json:
    return {"role": "system", "content": text}


def user(text: str = "Run 7. Fleet: 0 proofs/h of 500.") -> Json:
    return {"role": "user", "content": text}


def said(text: str = "Hold.") -> Json:
    return {"role": "assistant", "content": text}


def called(*calls: tuple[str, str, Json], content: str | None = "(calls)") -> Json:
    """An assistant message with calls, each (id, name, arguments)."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for call_id, name, arguments in calls
        ],
    }


def result(call_id: str, value: Any) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": value if isinstance(value, str) else json.dumps(value)}


def body(*messages: Json, **parameters: Any) -> Json:
    """A request in order, unless the arguments say otherwise."""
    usual = {"model": "qwen3.5-122b", "messages": list(messages) or [system(), user()], "tools": all_tools()}
    return {**usual, "max_tokens": 512, **parameters}
