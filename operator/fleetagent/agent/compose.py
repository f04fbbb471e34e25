"""This run's request as it grows: system prompt + summary + history + what this run adds; stored before it is relied upon."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleetagent.agent.subject import Subject
from fleetagent.domain.messages import Kind, Message
from fleetagent.domain.model import JsonObject, ModelRequest, Usage
from fleetagent.domain.observation import Observation
from fleetagent.domain.prompt import observation_text, system_prompt
from fleetagent.domain.records import Run
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.text import clean, cut
from fleetagent.domain.transcript import repair, violations, wire
from fleetagent.domain.window import (
    Anchor,
    Budget,
    Calibration,
    Count,
    fit_tool_result,
    request_estimate,
    room_for_tool_result,
)
from fleetagent.errors import BadReply
from fleetagent.ports import Conversation

log = logging.getLogger(__name__)

SUMMARY_HEAD = "Summary of earlier runs, written by the program or by you:\n"
MOST_FEEDBACK_CHARS = 2_000
SHARE_FOR_TOOL_RESULTS = 4  # a quarter of the budget is kept free for what the tools will answer


def budget_of(subject: Subject) -> Budget:
    """How the resource's token budget is divided."""
    context, model = subject.spec.context, subject.spec.model
    return Budget(
        total=context.token_budget,
        reply=min(model.max_output_tokens, context.token_budget // 4),
        tool_results=context.token_budget // SHARE_FOR_TOOL_RESULTS,
    )


@dataclass(slots=True)
class Transcript:
    """What the model is sent next. `history` are earlier runs' messages in the prompt, `mine` this run's."""

    subject: Subject
    run: Run
    tools: tuple[JsonObject, ...]
    count: Count
    conversation: Conversation
    history: tuple[Message, ...]
    summary: str
    masked_before_run: int
    calibration: Calibration
    anchor: Anchor | None
    mine: list[Message] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)

    @property
    def budget(self) -> Budget:
        """The token budget, divided."""
        return budget_of(self.subject)

    def _head(self) -> list[Message]:
        return [Message(0, Kind.SUMMARY, "user", SUMMARY_HEAD + self.summary)] if self.summary else []

    def messages(self) -> tuple[JsonObject, ...]:
        """The exact messages for the server; the same rows always give the same bytes."""
        rows = repair([*self._head(), *self.history, *self.mine])
        return wire(
            system_prompt(self.subject.spec),
            rows,
            current_run=self.run.run_id,
            masked_before_run=self.masked_before_run,
        )

    def estimate(self) -> int:
        """Our count of the next request, schemas and template included."""
        return request_estimate(self.messages(), self.tools, self.count)

    def projected(self) -> int:
        """What the server will count."""
        return self.calibration.project(self.estimate(), self.anchor)

    def request(self, *, may_call_tools: bool = True) -> ModelRequest:
        """The next request; `BadReply` if, against all care, a strict server would refuse it."""
        messages = self.messages()
        if found := violations(messages):
            raise BadReply(f"the prompt is not valid and was not sent: {'; '.join(found[:3])}")
        model = self.subject.spec.model
        return ModelRequest(
            messages=messages,
            tools=self.tools,
            max_output_tokens=self.budget.reply,
            timeout=model.timeout,
            may_call_tools=may_call_tools,
            parameters=model.parameters or {},
        )

    def next_projected(self, *, without_mine: bool) -> int:
        """What the server will count of the next run's prompt, before that run adds anything."""
        shown = () if without_mine else self.mine
        rows = wire(
            system_prompt(self.subject.spec),
            repair([*self._head(), *self.history, *shown]),
            current_run=self.run.run_id + 1,
            masked_before_run=self.masked_before_run,
        )
        return self.calibration.project(request_estimate(rows, self.tools, self.count), self.anchor)

    async def add(self, messages: Sequence[Message]) -> None:
        """Store this run's messages, then show them."""
        counted = [replace(m, tokens=self.count(m.content)) for m in messages]
        await self.conversation.append(self.run, counted)
        self.mine += counted

    async def add_results(self, results: Sequence[tuple[str, str]]) -> None:
        """Store tool results (call id, text): the run sees what fits the room, history keeps a little of it."""
        keep = self.subject.spec.context.tool_result_chars
        projected = self.projected()
        room = room_for_tool_result(self.budget, projected, waiting=len(results), calibration=self.calibration)
        await self.add(
            [
                Message(
                    self.run.run_id,
                    Kind.TOOL_RESULT,
                    "tool",
                    fit_tool_result(clean(text), room, self.count),
                    tool_call_id=call_id,
                    history_content=cut(clean(text), keep) if len(text) > keep else None,
                )
                for call_id, text in results
            ]
        )

    async def counted(self, usage: Usage, estimated: int) -> None:
        """Learn from what the server counted; people see its figure, not ours."""
        self.usage.append(usage)
        self.calibration = self.calibration.learn(estimated, usage.prompt_tokens)
        if usage.prompt_tokens:
            self.anchor = Anchor(usage.prompt_tokens, estimated)
        await self.conversation.count(
            self.run,
            reported=usage.prompt_tokens,
            estimated=estimated,
            endpoint=self.subject.endpoint,
            ratio=self.calibration.ratio,
        )


class Compose:
    """Opens a run's transcript: history from the store, then the operator's words, then the facts."""

    def __init__(self, conversation: Conversation, count: Count, tools: tuple[JsonObject, ...]) -> None:
        self._conversation = conversation
        self._count = count
        self._tools = tools

    async def __call__(self, subject: Subject, run: Run, seen: Observation) -> Transcript:
        """The transcript of this run, its own first messages stored."""
        session = subject.record.session
        ratio = subject.record.calibration.get(subject.endpoint)
        transcript = Transcript(
            subject=subject,
            run=run,
            tools=self._tools,
            count=self._count,
            conversation=self._conversation,
            history=await self._conversation.in_prompt(run.session_id),
            summary=session.summary or "",
            masked_before_run=session.masked_before_run,
            calibration=Calibration(ratio, samples=1) if ratio is not None else Calibration(),
            anchor=None,
        )
        spoken = [
            Message(run.run_id, Kind.FEEDBACK, "user", clean(p.words or "", MOST_FEEDBACK_CHARS))
            for p in run.calls.pending
            if p.kind is Trigger.FEEDBACK and p.words
        ]
        facts = observation_text(seen, run.run_id, run.calls, subject.spec)
        await transcript.add([*spoken, Message(run.run_id, Kind.OBSERVATION, "user", facts)])
        return transcript
