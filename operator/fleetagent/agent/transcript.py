"""This run's request as it grows: system prompt, summary, history and what this run adds, stored before it is shown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleetagent.agent.subject import Subject
from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.conversation.transcript import prompt_rows, wire
from fleetagent.domain.conversation.window import (
    Anchor,
    Budget,
    Calibration,
    Count,
    fit_tool_result,
    request_estimate,
    rooms_for_tool_results,
)
from fleetagent.domain.model import JsonObject, ModelRequest
from fleetagent.domain.prompt import system_prompt
from fleetagent.domain.records import Run, Spent
from fleetagent.domain.text import clean, cut
from fleetagent.errors import BadPrompt, ContextFull
from fleetagent.ports import Conversation

SHARE_FOR_TOOL_RESULTS = 4  # a quarter of the budget is kept free for what the tools will answer
LEAST_REPLY = 256
"""An answer with less room than this is mostly cut off."""
SURE_PERCENT = 2  # a projection of which no more was never counted is as good as a count


def budget_of(subject: Subject, window: int | None = None) -> Budget:
    """How the resource's token budget, or the server's window if that is smaller, is divided."""
    total = min(subject.spec.context.token_budget, window or subject.spec.context.token_budget)
    return Budget(
        total=total,
        reply=min(subject.spec.model.max_output_tokens, total // 4),
        tool_results=total // SHARE_FOR_TOOL_RESULTS,
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
    counts: Counts
    window: int | None = None
    """The server's own window, where it is known to be smaller than the budget."""
    compacted: bool = False
    overflowed: bool = False
    mine: list[Message] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    exchanged_tokens: int = 0
    """Our estimate of what was exchanged in the prompt since the server counted it last."""
    counted_rows: int = 0
    """How many messages of this run the server had counted by then."""
    _made: "tuple[object, tuple[JsonObject, ...], int] | None" = None
    """What the messages were made of when they were made last, the messages, their estimate."""

    @property
    def budget(self) -> Budget:
        """The token budget, divided."""
        return budget_of(self.subject, self.window)

    def _shown(self, mine: Sequence[Message], current_run: int) -> tuple[JsonObject, ...]:
        rows = prompt_rows(self.summary, [*self.history, *mine])
        system = system_prompt(self.subject.spec)
        return wire(system, rows, current_run=current_run, masked_before_run=self.masked_before_run)

    def messages(self) -> tuple[JsonObject, ...]:
        """The exact messages for the server; the same rows always give the same bytes."""
        return self._counted_messages()[0]

    def estimate(self) -> int:
        """Our count of the next request, schemas and template included."""
        return self._counted_messages()[1]

    def _counted_messages(self) -> tuple[tuple[JsonObject, ...], int]:
        rows = (self.history, tuple(self.mine), self.summary, self.masked_before_run)
        if self._made is None or self._made[0] != rows:  # asked for several times a request, and made once
            messages = self._shown(self.mine, self.run.run_id)
            self._made = rows, messages, request_estimate(messages, self.tools, self.count)
        return self._made[1:]

    def projected(self) -> int:
        """What the server will count."""
        return self.calibration.project(self.estimate(), self._anchor())

    def is_sure(self, most: int) -> bool:
        """Whether the projection can tell that the next request takes no more, or that it does take more."""
        estimated, anchor = self.estimate(), self._anchor()
        if anchor is None:  # far below the limit it does not matter how many it is exactly
            return self.calibration.at_most(estimated) <= most
        projected, doubt = self.projected(), self._doubt()
        uncounted = abs(estimated - anchor.estimated) + self.exchanged_tokens
        nearly_all_counted = uncounted * 100 <= SURE_PERCENT * estimated
        return nearly_all_counted or not projected - doubt <= most <= projected + doubt

    def _anchor(self) -> Anchor | None:
        return self.counts.anchor(self.estimate(), self.run.run_id)

    def _doubt(self) -> int:
        frames = sum(1 + len(m.tool_calls) for m in self.mine[self.counted_rows :])
        return self.calibration.doubt(self.estimate(), self._anchor(), exchanged=self.exchanged_tokens, frames=frames)

    def next_projected(self, *, without_mine: bool) -> int:
        """What the server will count of the next run's first request, should it see about what this one saw."""
        next_run = self.run.run_id + 1
        seen = [replace(m, run_id=next_run) for m in self.mine if m.kind is Kind.OBSERVATION]
        rows = self._shown([*(() if without_mine else self.mine), *seen], next_run)
        estimated = request_estimate(rows, self.tools, self.count)
        return self.calibration.project(estimated, self.counts.anchor(estimated, next_run))

    def request(self) -> ModelRequest:
        """The next request. `BadPrompt` if, against all care, a strict server would refuse it; `ContextFull`."""
        messages = self.messages()
        if found := violations(messages):
            raise BadPrompt(f"the prompt is not valid and was not sent: {'; '.join(found[:3])}")
        return self._asking(messages, self.tools, self.projected(), self._doubt(), may_call_tools=True)

    def request_to_count(self) -> ModelRequest:
        """The next request as far as its prompt goes, whether it fits or not."""
        return self._asking(self.messages(), self.tools, 0, 0, may_call_tools=True)

    def summary_request(self, system: str, user: str) -> ModelRequest:
        """A request for a summary, apart from the conversation. `ContextFull` if it leaves no room for one."""
        messages = ({"role": "system", "content": system}, {"role": "user", "content": user})
        estimated = request_estimate(messages, (), self.count)
        projected, doubt = self.calibration.project(estimated), self.calibration.doubt(estimated)
        return self._asking(messages, (), projected, doubt, may_call_tools=False)

    def _asking(
        self,
        messages: tuple[JsonObject, ...],
        tools: tuple[JsonObject, ...],
        projected: int,
        doubt: int,
        *,
        may_call_tools: bool,
    ) -> ModelRequest:
        """Prompt and answer together never pass the budget: the answer gives way, down to the least that is of use."""
        model, budget = self.subject.spec.model, self.budget
        left, least = budget.total - projected, min(budget.reply, LEAST_REPLY)
        if left < least:
            what = "the model server's window" if self.window is not None else "spec.context.tokenBudget"
            raise ContextFull(
                f"the prompt needs about {projected} of the {budget.total} tokens of {what} and leaves no room for a "
                "reply: raise it, or shorten spec.instructions"
            )
        most = max(left - doubt, least)
        return ModelRequest(
            messages=messages,
            tools=tools,
            max_output_tokens=min(budget.reply, most),
            timeout=model.timeout,
            may_call_tools=may_call_tools,
            parameters=model.parameters or {},
            most_output_tokens=most,
        )

    def forget_anchors(self) -> None:
        """What the server has counted is not what would be sent now."""
        self.counts = self.counts.without_anchors()

    def was_counted(self) -> None:
        """Nothing in the prompt is uncounted now."""
        self.exchanged_tokens, self.counted_rows = 0, len(self.mine)

    async def add(self, messages: Sequence[Message]) -> None:
        """Store this run's messages, then show them."""
        counted = [replace(m, tokens=self.count(m.content)) for m in messages]
        await self.conversation.append(self.run, counted)
        self.mine += counted

    async def add_results(self, results: Sequence[tuple[str, str]]) -> None:
        """Store tool results (call id, text): the run sees what fits the room, history keeps a little of it."""
        keep = self.subject.spec.context.tool_result_chars
        texts = [clean(text) for _, text in results]
        rooms = rooms_for_tool_results(texts, self.budget, self.projected(), self.calibration, self.count)
        await self.add(
            [
                Message(
                    self.run.run_id,
                    Kind.TOOL_RESULT,
                    "tool",
                    fit_tool_result(text, room, self.count),
                    tool_call_id=call_id,
                    history_content=cut(text, keep) if len(text) > keep else None,
                )
                for (call_id, _), text, room in zip(results, texts, rooms, strict=True)
            ]
        )

    def shorten_results(self, to_projected: int) -> None:
        """Show less of this run's tool results, the oldest first, until the next request projects to no more.

        What is stored stays whole; history keeps its own short form in any case.
        """
        for place, message in enumerate(self.mine):
            excess = self.projected() - to_projected
            if excess <= 0:
                return
            if message.kind is Kind.TOOL_RESULT:
                room = self.count(message.content) - math.ceil(excess / self.calibration.of_a_tail)
                shorter = replace(message, content=fit_tool_result(message.content, max(room, 0), self.count))
                self.exchanged_tokens += self.count(message.content) + self.count(shorter.content)
                self.mine[place] = shorter

    def results_projected(self) -> int:
        """What this run's tool results take of the next request: so much could still be shown shorter."""
        tokens = sum(self.count(m.content) for m in self.mine if m.kind is Kind.TOOL_RESULT)
        return math.ceil(tokens * self.calibration.of_a_tail)
