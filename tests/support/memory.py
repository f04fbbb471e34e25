"""The agent's memory without a database: what `ports.memory` promises, as far as runs and conversations need it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.messages import Left, Message
from fleetagent.domain.conversation.window import Calibration
from fleetagent.domain.facts import Refusal
from fleetagent.domain.observation import Calls
from fleetagent.domain.records import (
    Action,
    ActionState,
    AgentKey,
    AgentRecord,
    Asked,
    Conclusion,
    Lease,
    Outcome,
    Pulse,
    Quiet,
    Renewed,
    Run,
    RunReport,
    SessionRecord,
    Spent,
)
from fleetagent.domain.schedule import Pending, Trigger, Wake
from fleetagent.errors import LeaseLost
from support.fleets import NOW

KEY = AgentKey("default", "porep")


@dataclass
class Row:
    """One stored message, and why it left the prompt."""

    session_id: int
    message: Message
    left: Left | None = None


@dataclass
class Memory:
    """One agent's rows; whoever holds an old lease or an old session can't write."""

    session: SessionRecord = field(
        default_factory=lambda: SessionRecord(1, 1, NOW, 0, None, 0, None, None, None, messages_in_prompt=0)
    )
    rows: list[Row] = field(default_factory=list)
    compactions: list[dict[str, Any]] = field(default_factory=list)
    concluded: dict[int, Conclusion] = field(default_factory=dict)
    interrupted: dict[int, str] = field(default_factory=dict)
    booked: dict[int, Spent] = field(default_factory=dict)
    acted: list[Action] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    wakes: list[Wake] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)
    calibration: dict[str, Calibration] = field(default_factory=dict)
    quiet: Quiet | None = None
    host_rates: dict[tuple[str, str, int], float] = field(default_factory=dict)
    token: int = 1
    started: int = 0

    # --- what a test does ---

    def record(self) -> AgentRecord:
        """The agent's row as it is now."""
        shown = sum(r.left is None and r.session_id == self.session.id for r in self.rows)
        return AgentRecord(
            id=1,
            key=KEY,
            uid="uid-1",
            last_run_id=self.started,
            handled={},
            spec_hash=None,
            next_scheduled_at=None,
            account_id=None,
            calibration=dict(self.calibration),
            quiet=self.quiet,
            model_failing_since=None,
            session=replace(self.session, messages_in_prompt=shown),
            alerted=frozenset(),
        )

    def say(self, words: str, kind: Trigger = Trigger.FEEDBACK) -> None:
        """A person's message, or another trigger, waits for the next run."""
        self.pending.append(Pending(len(self.pending) + 1, kind, f"message:{words[:20]}", words, NOW))

    def call_for(self, *kinds: Trigger) -> None:
        """A run is due; what waits already is not doubled."""
        known = {p.kind for p in self.pending}
        self.pending += [Pending(100 + len(self.pending), k, k.value, None, NOW) for k in kinds if k not in known]

    def act(self, run_id: int, state: ActionState, kind: str = "launch", code: str | None = None) -> None:
        """Something stands in the ledger for this run; a refusal without a `code` is that of a fleet on target."""
        if code is None and state is ActionState.REFUSED:
            code = "OnTarget"
        self.acted.append(Action(len(self.acted) + 1, run_id, kind, state, "fa/x/1", "9001", code, "because"))

    async def start_session(self) -> None:
        """The reset."""
        for row in self.rows:
            row.left = row.left or Left.RESET
        self.session = SessionRecord(
            self.session.id + 1, self.session.epoch + 1, NOW, 0, None, 0, None, None, None, messages_in_prompt=0
        )

    def _owned(self, lease: Lease) -> None:
        if lease.token != self.token:
            raise LeaseLost("another process owns this agent now")

    def _in_session(self, run: Run) -> None:
        self._owned(run.lease)
        if run.epoch != self.session.epoch:
            raise LeaseLost("the session has been reset")

    # --- ports.Agents and ports.Runs ---

    async def renew(self, leases: Collection[Lease]) -> Renewed:
        return Renewed(frozenset(lease for lease in leases if lease.token != self.token), frozenset())

    async def claim(self, lease: Lease, now: datetime) -> Run:
        self._owned(lease)
        self.started += 1
        due = tuple(w for w in self.wakes if w.at <= now)
        called = {p.kind for p in self.pending} | ({Trigger.WAKE} if due else set())
        calls = Calls(tuple(t for t in Trigger if t in called), tuple(self.pending), due)
        return Run(lease, self.started, self.session.id, self.session.epoch, calls, now)

    async def conclude(self, run: Run, conclusion: Conclusion) -> None:
        self._in_session(run)
        self.concluded[run.run_id] = conclusion
        self.pending = [p for p in self.pending if p not in run.calls.pending]
        self.wakes = [w for w in self.wakes if w not in run.calls.wakes]
        if conclusion.quiet:
            self._leave(run.run_id, Left.QUIET)
        if conclusion.outcome is not Outcome.SKIPPED:
            self.quiet = Quiet(conclusion.fingerprint, run.started_at) if conclusion.fingerprint else None
        self.session = replace(self.session, next_prompt_tokens=conclusion.next_prompt_tokens)

    async def interrupt(self, run: Run, because: str, *, wanted: bool = False) -> None:
        del wanted
        self._owned(run.lease)
        self.interrupted[run.run_id] = because
        self._leave(run.run_id, Left.INTERRUPTED)

    def _leave(self, run_id: int, because: Left) -> None:
        for row in self.rows:
            if row.message.run_id == run_id and row.left is None:
                row.left = because

    async def ask_wake(self, run: Run, at: datetime, reason: str, *, limit: int) -> Wake | None:
        self._in_session(run)
        if len(self.wakes) >= limit:
            return None
        self.wakes.append(Wake(len(self.wakes) + 1, at, reason, run.run_id))
        return self.wakes[-1]

    async def cancel_wake(self, run: Run, wake_id: int) -> bool:
        self._in_session(run)
        before = len(self.wakes)
        self.wakes = [w for w in self.wakes if w.id != wake_id]
        return len(self.wakes) < before

    async def raise_alert(self, agent_id: int, run_id: int, code: str, severity: str, message: str) -> int | None:
        del agent_id, run_id, code, severity
        self.alerts.append(message)
        return len(self.alerts)

    # --- ports.Ledger ---

    async def actions(self, agent_id: int, run_id: int) -> tuple[Action, ...]:
        del agent_id
        return tuple(a for a in self.acted if a.run_id == run_id)

    async def pulse(self, agent_id: int, run_id: int, now: datetime) -> Pulse:
        del agent_id, run_id, now
        tokens = sum(s.tokens_in + s.tokens_out for s in self.booked.values())
        return Pulse(0, 0, 0, Decimal(0), tokens, host_rates=self.host_rates)

    async def refuse(self, run: Run, asked: Asked, refusal: Refusal, wish: Any = None) -> None:
        del wish
        self.act(run.run_id, ActionState.REFUSED, asked.kind, refusal.code)

    # --- ports.Conversation ---

    async def in_prompt(self, session_id: int) -> tuple[Message, ...]:
        return tuple(r.message for r in self.rows if r.session_id == session_id and r.left is None)

    async def append(self, run: Run, messages: Sequence[Message]) -> None:
        self._in_session(run)
        first = sum(r.session_id == run.session_id for r in self.rows) + 1
        self.rows += [Row(run.session_id, replace(m, seq=first + n)) for n, m in enumerate(messages)]

    async def compact(
        self,
        run: Run,
        *,
        masked_before_run: int,
        leaving_seqs: Sequence[int],
        summary: str | None,
        **row: Any,
    ) -> None:
        self._in_session(run)
        for stored in self.rows:
            if stored.session_id == run.session_id and stored.message.seq in leaving_seqs and stored.left is None:
                stored.left = Left.COMPACTED
        before = self.session
        self.session = replace(
            before,
            compactions=before.compactions + 1,
            summary=before.summary if summary is None else summary,
            masked_before_run=max(before.masked_before_run, masked_before_run),
            counts=before.counts and before.counts.without_anchors(),
        )
        self.compactions.append({"run_id": run.run_id, "summary": summary, **row})

    async def count(
        self, run: Run, *, reported: int | None, estimated: int, counts: Counts, calibration: Calibration
    ) -> None:
        self._in_session(run)
        self.calibration[counts.endpoint] = replace(calibration, samples=1)
        if reported is None and self.session.context_tokens is not None:
            reported, estimated = self.session.context_tokens, self.session.estimated_tokens or 0
        self.session = replace(self.session, context_tokens=reported, estimated_tokens=estimated, counts=counts)

    async def book(self, run: Run, spent: Spent) -> None:
        self._owned(run.lease)
        self.booked[run.run_id] = self.booked.get(run.run_id, Spent()) + spent

    async def notes(self, agent_id: int, run_ids: Sequence[int]) -> tuple[RunReport, ...]:
        del agent_id
        return tuple(
            RunReport(
                i,
                ("Schedule",),
                NOW,
                NOW + timedelta(seconds=9),
                c.outcome,
                c.summary,
                c.error,
                c.reason,
                tuple(a for a in self.acted if a.run_id == i),
            )
            for i, c in sorted(self.concluded.items())
            if i in run_ids
        )
