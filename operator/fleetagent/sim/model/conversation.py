"""A chat request as values: what is left of the JSON once its shape is known to be right."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing a strict server refuses: the rule's name, a sentence, and where in the request."""

    rule: str
    sentence: str
    param: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as it stands in an assistant message; `arguments` is text that should hold a JSON object."""

    id: str
    name: str
    arguments: str

    def parsed(self) -> dict[str, Any] | None:
        """The arguments as an object, or None when the text is anything else."""
        return json_object(self.arguments)


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `text` is None where content was null or missing, `answers` is the id of the call it is for."""

    role: Role
    text: str | None
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A whole request of the right shape."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str = "auto"
    """`auto`, `none`, `required`, or the name of the one function to call."""

    parallel_tool_calls: bool = True
    max_tokens: int | None = None
    fields: frozenset[str] = frozenset()
    """What stood in the body, by name."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the tools that may be called."""
        return tuple(str(tool["function"]["name"]) for tool in self.tools)


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, or None."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _no_constant(word: str) -> None:
    """NaN and Infinity are Python's, not JSON's."""
    raise ValueError(f"{word} is not JSON")
