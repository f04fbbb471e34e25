"""What we ask a model and what it answers, in our words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from fleetagent.errors import BadReply

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
    most_output_tokens: int | None = None
    """What the window leaves at most, should the answer need more than `max_output_tokens`; None: not known."""


class CallsFrom(StrEnum):
    """Where a reply's calls stood; whatever is not `calls` shows that the server's tool parser does not fit."""

    CALLS = "calls"
    TEXT = "text"
    REASONING = "reasoning"


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call as the server sent it: name and arguments may be anything."""

    name: str
    arguments: str
    written: str = ""
    """The text that it was read from, when it did not come as a call."""


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
    discarded: tuple["Reply", ...] = ()
    """Answers before this one that were of no use and asked for again: they were paid for, too."""
    calls_from: CallsFrom = CallsFrom.CALLS
    unread: str | None = None
    """Why the text holds a call that counts as none; then it is no answer either."""


class NothingUsable(BadReply):
    """The model answered, and nothing of it can be used. The last answer, if any, was paid for like every other."""

    def __init__(self, message: str, reply: Reply | None = None) -> None:
        super().__init__(message)
        self.reply = reply
