"""The messages of a conversation, as we keep them."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a message is for us; the wire only knows roles."""

    OBSERVATION = "observation"  # role user: the facts at the start of a run
    FEEDBACK = "feedback"  # role user: a person's words, verbatim, never masked
    NUDGE = "nudge"  # role user: our words to the model within a run
    SUMMARY = "summary"  # role user: what left the prompt, in short
    REPLY = "reply"  # role assistant
    TOOL_RESULT = "tool_result"  # role tool


class Left(StrEnum):
    """Why a message is not in the prompt any more; it stays in the audit."""

    QUIET = "quiet"
    COMPACTED = "compacted"
    RESET = "reset"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as it goes on the wire: our own id, and arguments that are the text of a JSON object."""

    id: str
    name: str
    arguments: str
    original: str | None = None
    """What the model really wrote, where that could not be kept as a call: for the audit, never on the wire."""


@dataclass(frozen=True, slots=True)
class Message:
    """One stored message. `history_content` is what later runs see of it, when that is not all of it."""

    run_id: int
    kind: Kind
    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    history_content: str | None = None
    tokens: int = 0
    """Our estimate of what it adds to the prompt of its own run."""
    seq: int = 0
    """Its place in the session; 0 before it is stored."""
