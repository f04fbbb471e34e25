"""The conversation as the model sees it now: made by what composes a run's request, beside the rows it stands for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Final

from fleetagent.domain.conversation.calls import NOTHING_SAID
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.conversation.transcript import LEFT_OUT, prompt_rows, wire
from fleetagent.domain.prompt import system_prompt
from fleetagent.domain.resource import FleetAgentSpec
from fleetagent.domain.views import AgentRow, MessageView, SessionView

RUNNING: Final = "running"


class Form(StrEnum):
    """How a message of an earlier run differs from what that run saw itself."""

    MASKED = "masked"  # only that something stood there
    CUT = "cut"  # its beginning
    CALL_ALONE = "call alone"  # the call, without the words beside it


@dataclass(frozen=True, slots=True)
class Shown:
    """One message exactly as it is sent; `whole` is what was stored, where that is more."""

    role: str
    kind: Kind
    text: str
    calls: tuple[ToolCall, ...]
    form: Form | None
    whole: str | None
    is_stored: bool
    """False for what is added on the way, so that the request is valid."""


@dataclass(frozen=True, slots=True)
class Part:
    """The messages of one run; `missing` messages before and between them are not in the prompt."""

    run_id: int
    at: datetime
    messages: tuple[Shown, ...]
    missing: int
    masked: bool
    """Whether its observations and results are left out."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The whole request, tools aside; `missing_at_end` messages stand behind all that is in it."""

    system: str
    summary: str | None
    parts: tuple[Part, ...]
    missing_at_end: int


def prompt(
    spec: FleetAgentSpec, session: SessionView, stored: Sequence[MessageView], *, before: int, run_id: int
) -> Prompt:
    """What the next request of run `run_id` begins with.

    `stored` is what is in the prompt, in the order of its seq, from behind `before` on.
    """
    rows = prompt_rows(session.summary or "", [as_stored(m) for m in stored])
    border = session.masked_before_run
    system, *sent = wire(system_prompt(spec), rows, current_run=run_id, masked_before_run=border)
    shown = [(row, _shown(row, each["content"])) for row, each in zip(rows, sent, strict=True)]
    summary = next((s.text for row, s in shown if row.kind is Kind.SUMMARY), None)
    spoken = [(row, s) for row, s in shown if row.kind is not Kind.SUMMARY and not _awaited(row, run_id)]
    last = stored[-1].seq if stored else before
    parts = tuple(_parts(spoken, stored, before, border))
    return Prompt(system["content"], summary, parts, max(session.messages - last, 0))


def run_composed(row: AgentRow, session_id: int) -> int:
    """The run whose request is composed now, or would be next: older ones are shown as history keeps them."""
    last = row.last_run
    goes_on = last is not None and last.state == RUNNING and last.session_id == session_id
    return row.last_run_id if goes_on else row.last_run_id + 1


def as_stored(view: MessageView) -> Message:
    """The row that a view was made of."""
    calls = tuple(
        ToolCall(str(c["id"]), str(c["name"]), str(c["arguments"]), c.get("original")) for c in view.tool_calls
    )
    return Message(
        view.run_id,
        Kind(view.kind),
        view.role,
        view.content,
        calls,
        view.tool_call_id,
        view.history_content,
        view.estimated_tokens,
        view.seq,
    )


def _shown(row: Message, text: str) -> Shown:
    form = None
    if text != row.content and row.content.strip():
        form = {LEFT_OUT: Form.MASKED, NOTHING_SAID: Form.CALL_ALONE}.get(text, Form.CUT)
    whole = row.content if form is not None else None
    return Shown(row.role, row.kind, text, row.tool_calls, form, whole, is_stored=row.seq > 0)


def _awaited(row: Message, run_id: int) -> bool:
    """Whether this stands for an answer that is not there yet, in a run that goes on."""
    return row.seq == 0 and row.kind is Kind.TOOL_RESULT and row.run_id == run_id


def _parts(
    shown: Sequence[tuple[Message, Shown]], stored: Sequence[MessageView], before: int, border: int
) -> Iterator[Part]:
    """By run. What is repaired has no row, and two rows may be one message: what is missing is told by the rows."""
    missing, at = {}, {}
    for run_id, group in groupby(stored, key=lambda m: m.run_id):
        rows = list(group)
        missing[run_id] = rows[-1].seq - before - len(rows)
        at[run_id] = rows[0].at
        before = rows[-1].seq
    for run_id, pairs in groupby(shown, key=lambda pair: pair[0].run_id):
        if run_id in at:
            messages = tuple(each for _, each in pairs)
            yield Part(run_id, at[run_id], messages, missing.pop(run_id, 0), run_id < border)
