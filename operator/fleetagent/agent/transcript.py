"""This run's request as it grows: system prompt, summary, history and what this run adds, stored before it is shown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleetagent.agent.subject import Subject
from fleetagent.domain.messages import Kind, Message
from fleetagent.domain.model import JsonObject, ModelRequest, Reply
from fleetagent.domain.money import model_usd
from fleetagent.domain.prompt import system_prompt
from fleetagent.domain.records import Run, Spent
from fleetagent.domain.resource import TokenPrices
from fleetagent.domain.strict import violations
from fleetagent.domain.text import clean, cut
from fleetagent.domain.transcript import repair, wire
from fleetagent.domain.window import (
    Anchor,
    Budget,
    Calibration,
    Count,
    fit_tool_result,
    request_estimate,
    rooms_for_tool_results,
)
from fleetagent.errors import BadPrompt
from fleetagent.ports import Conversation

SUMMARY_HEAD = "Summary of earlier runs, written by the program or by you:\n"
SHARE_FOR_TOOL_RESULTS = 4  # a quarter of the budget is kept free for what the tools will answer
SMALLEST_WINDOW = 2_000
"""A server that says its window is smaller than the smallest budget allowed is not believed."""


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
    anchor: Anchor | None = None
    window: int | None = None
    """The server's own window, once it has refused a request and named one that is smaller than the budget."""
    compacted: bool = False
    overflowed: bool = False
    mine: list[Message] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)

    @property
    def budget(self) -> Budget:
        """The token budget, divided."""
        return budget_of(self.subject, self.window)

    def _head(self) -> list[Message]:
        return [Message(0, Kind.SUMMARY, "user", SUMMARY_HEAD + self.summary)] if self.summary else []

    def _shown(self, mine: Sequence[Message], current_run: int) -> tuple[JsonObject, ...]:
        rows = repair([*self._head(), *self.history, *mine])
        system = system_prompt(self.subject.spec)
        return wire(system, rows, current_run=current_run, masked_before_run=self.masked_before_run)

    def messages(self) -> tuple[JsonObject, ...]:
        """The exact messages for the server; the same rows always give the same bytes."""
        return self._shown(self.mine, self.run.run_id)

    def estimate(self) -> int:
        """Our count of the next request, schemas and template included."""
        return request_estimate(self.messages(), self.tools, self.count)

    def projected(self) -> int:
        """What the server will count."""
        return self.calibration.project(self.estimate(), self.anchor)

    def next_projected(self, *, without_mine: bool) -> int:
        """What the server will count of the next run's prompt, before that run adds anything."""
        rows = self._shown(() if without_mine else self.mine, self.run.run_id + 1)
        return self.calibration.project(request_estimate(rows, self.tools, self.count), self.anchor)

    def request(self) -> ModelRequest:
        """The next request; `BadPrompt` if, against all care, a strict server would refuse it."""
        messages = self.messages()
        if found := violations(messages):
            raise BadPrompt(f"the prompt is not valid and was not sent: {'; '.join(found[:3])}")
        return self._asking(messages, self.tools, may_call_tools=True)

    def summary_request(self, system: str, user: str) -> ModelRequest:
        """A request for a summary, apart from the conversation."""
        messages = ({"role": "system", "content": system}, {"role": "user", "content": user})
        return self._asking(messages, (), may_call_tools=False)

    def _asking(
        self, messages: tuple[JsonObject, ...], tools: tuple[JsonObject, ...], *, may_call_tools: bool
    ) -> ModelRequest:
        model = self.subject.spec.model
        return ModelRequest(
            messages=messages,
            tools=tools,
            max_output_tokens=self.budget.reply,
            timeout=model.timeout,
            may_call_tools=may_call_tools,
            parameters=model.parameters or {},
        )

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
                room = self.count(message.content) - math.ceil(excess / self.calibration.ratio)
                self.mine[place] = replace(message, content=fit_tool_result(message.content, max(room, 0), self.count))

    def results_projected(self) -> int:
        """What this run's tool results take of the next request: so much could still be shown shorter."""
        tokens = sum(self.count(m.content) for m in self.mine if m.kind is Kind.TOOL_RESULT)
        return math.ceil(tokens * self.calibration.ratio)

    def learn_window(self, limit_tokens: int | None) -> None:
        """Believe a server that refused a request for its length and named a window below the budget."""
        if limit_tokens is not None and SMALLEST_WINDOW <= limit_tokens < self.budget.total:
            self.window = limit_tokens

    async def counted(self, reply: Reply, estimated: int) -> None:
        """Learn from what the server counted; people see its figure, not ours."""
        self.calibration = self.calibration.learn(estimated, reply.usage.prompt_tokens)
        if reply.usage.prompt_tokens:
            self.anchor = Anchor(reply.usage.prompt_tokens, estimated)
        await self.conversation.count(
            self.run,
            reported=reply.usage.prompt_tokens,
            estimated=estimated,
            endpoint=self.subject.endpoint,
            ratio=self.calibration.ratio,
        )

    async def pay(self, reply: Reply, estimated: int) -> None:
        """Book what one answer cost as soon as it is there: a run that is cut off has paid for it, too.

        Where the server did not count, our estimate stands in: unknown is not free.
        """
        usage = reply.usage
        spoken = [reply.text, reply.reasoning, *(f"{call.name}{call.arguments}" for call in reply.calls)]
        tokens_in = usage.prompt_tokens or estimated
        tokens_out = usage.completion_tokens or sum(map(self.count, spoken))
        cached = usage.cached_tokens or 0
        bill = _bill(self.subject.spec.model.usd_per_million_tokens, tokens_in, cached, tokens_out)
        self.spent += replace(bill, model_calls=0)  # the call was counted when it was made
        await self.conversation.book(self.run, bill)


def _bill(prices: TokenPrices | None, tokens_in: int, cached: int, tokens_out: int) -> Spent:
    bill = Spent(model_calls=1, tokens_in=tokens_in, tokens_out=tokens_out, tokens_cached=cached)
    if prices is None:
        return bill
    usd = model_usd(
        tokens_in,
        cached,
        tokens_out,
        input_price=prices.input,
        cached_price=prices.cached_input,
        output_price=prices.output,
    )
    return replace(bill, usd=usd)
