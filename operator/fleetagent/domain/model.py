"""What we ask a model and what it answers, in our words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One chat completion. `messages` and `tools` are in wire form, already valid; sizes are tokens."""

    messages: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...]
    max_output_tokens: int
    timeout: timedelta
    may_call_tools: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call as the server sent it: name and arguments may be anything."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them; None where it did not say (zero is not a count)."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `cut_off` when it ended for length or by a filter: then no call in it may be executed."""

    text: str
    calls: tuple[RawCall, ...]
    cut_off: bool
    usage: Usage
    finish_reason: str
    reasoning: str = ""
    request_id: str | None = None
