"""What was said, in order: each tool call with its answer, the oldest first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleetagent.domain.conversation.messages import Kind
from fleetagent.domain.views import MessageView
from fleetagent.entrypoints.web.page.pretty import pretty

SPEAKERS: Final[Mapping[str, str]] = {
    Kind.OBSERVATION: "The facts",
    Kind.FEEDBACK: "A person",
    Kind.NUDGE: "The program",
    Kind.SUMMARY: "Summary of earlier runs",
    Kind.REPLY: "The model",
    Kind.TOOL_RESULT: "Result of a tool",
}
"""Who speaks, by the kind of the message."""

LEFT: Final[Mapping[str, str]] = {
    "quiet": "nothing happened in that run but looking",
    "compacted": "its run went into the summary when the prompt was full",
    "reset": "the session was reset",
    "interrupted": "its run was interrupted",
}
"""Why a message is not in the prompt any more, in words."""


@dataclass(frozen=True, slots=True)
class Called:
    """One call of a tool; `original` is what the model wrote where that could not be kept."""

    name: str
    arguments: str
    original: str | None
    result: MessageView | None


@dataclass(frozen=True, slots=True)
class Step:
    """One message, and the answers to what it called."""

    message: MessageView
    calls: tuple[Called, ...]


def steps(messages: Sequence[MessageView]) -> tuple[Step, ...]:
    """Messages by `seq`, with the results of each call beside it; a result whose call is not there stands alone."""
    return tuple(_steps(sorted(messages, key=lambda m: (m.session_id, m.seq))))


def _steps(messages: Sequence[MessageView]) -> Iterator[Step]:
    results: dict[tuple[int, str | None], list[MessageView]] = {}
    for message in messages:
        if message.kind == Kind.TOOL_RESULT:
            results.setdefault((message.run_id, message.tool_call_id), []).append(message)
    taken: set[tuple[int, int]] = set()
    for message in messages:
        if message.kind == Kind.TOOL_RESULT:
            if (message.session_id, message.seq) not in taken:
                yield Step(message, ())
            continue
        calls = []
        for call in message.tool_calls:
            answers = results.get((message.run_id, call.get("id")), [])
            answer = next((a for a in answers if a.seq > message.seq and (a.session_id, a.seq) not in taken), None)
            if answer is not None:
                taken.add((answer.session_id, answer.seq))
            calls.append(
                Called(str(call.get("name")), pretty(str(call.get("arguments"))), call.get("original"), answer)
            )
        yield Step(message, tuple(calls))
