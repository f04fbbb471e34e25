"""The agent's memory without a database, for tens of thousands of runs: a step costs the prompt, not the history."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from fleetagent.domain.conversation.messages import Left, Message
from fleetagent.domain.records import Action, ActionState, AgentRecord, Pulse, Run, RunReport, Spent
from support.memory import Memory, Row


@dataclass
class LongMemory(Memory):
    """What `Memory` promises, for one session; what is in the prompt and what each run did is found at once."""

    shown: list[Row] = field(default_factory=list)
    acts: dict[int, list[Action]] = field(default_factory=lambda: defaultdict(list))
    tokens: int = 0

    def book_action(self, run_id: int, state: ActionState, kind: str, machine: str | None, code: str | None) -> None:
        """A row of the ledger."""
        self.acts[run_id].append(Action(run_id, run_id, kind, state, None, machine, code, "as planned"))

    def record(self) -> AgentRecord:
        rows, self.rows = self.rows, []
        record = super().record()
        self.rows = rows
        return replace(record, session=replace(record.session, messages_in_prompt=len(self.shown)))

    async def in_prompt(self, session_id: int) -> tuple[Message, ...]:
        del session_id
        return tuple(row.message for row in self.shown)

    async def append(self, run: Run, messages: Sequence[Message]) -> None:
        self._in_session(run)
        first = len(self.rows) + 1
        new = [Row(run.session_id, replace(m, seq=first + n)) for n, m in enumerate(messages)]
        self.rows += new
        self.shown += new

    async def compact(self, run: Run, *, leaving_seqs: Sequence[int], **row: Any) -> None:
        await super().compact(run, leaving_seqs=(), **row)
        gone = set(leaving_seqs)
        self._part(Left.COMPACTED, [r for r in self.shown if r.message.seq in gone])

    def _leave(self, run_id: int, because: Left) -> None:
        self._part(because, [r for r in self.shown if r.message.run_id == run_id])

    def _part(self, because: Left, leaving: list[Row]) -> None:
        for row in leaving:
            row.left = because
        self.shown = [r for r in self.shown if r.left is None]

    async def actions(self, agent_id: int, run_id: int) -> tuple[Action, ...]:
        del agent_id
        return tuple(self.acts.get(run_id, ()))

    def act(self, run_id: int, state: ActionState, kind: str = "launch", code: str | None = None) -> None:
        self.book_action(run_id, state, kind, None, code)

    async def pulse(self, agent_id: int, run_id: int, now: datetime) -> Pulse:
        del agent_id, run_id, now
        return Pulse(0, 0, 0, Decimal(0), self.tokens)

    async def book(self, run: Run, spent: Spent) -> None:
        await super().book(run, spent)
        self.tokens += spent.tokens_in + spent.tokens_out

    async def notes(self, agent_id: int, run_ids: Sequence[int]) -> tuple[RunReport, ...]:
        del agent_id
        ended = [(i, self.concluded[i]) for i in sorted(run_ids) if i in self.concluded]
        return tuple(
            RunReport(
                i, (), self.session.started_at, None, c.outcome, c.summary, c.error, c.reason, tuple(self.acts[i])
            )
            for i, c in ended
        )
