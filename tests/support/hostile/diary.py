"""Leases, runs, wakes, alerts and waiting actions of several agents without a database."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fleetagent.domain.approval import APPROVED_FOR, Answer, Verdict, Wish
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Waiting
from fleetagent.domain.observation import Calls
from fleetagent.domain.records import ActionState, Asked, Lease, Run
from fleetagent.domain.schedule import Trigger, Wake
from fleetagent.errors import LeaseLost, NotStorable
from support.hostile.rows import Book, Deed


class Diary:
    """Implements `ports.Agents`, `ports.Runs` and `ports.Approvals` as far as acting needs them."""

    def __init__(self) -> None:
        self.of: defaultdict[int, Book] = defaultdict(Book)
        self._deeds = self._wakes = self._alerts = 0

    def owned(self, lease: Lease) -> Book:
        book = self.of[lease.agent_id]
        if book.token != lease.token:
            raise LeaseLost("another process owns this agent now")
        return book

    def new_deed(self, book: Book, asked: Asked, **row: Any) -> Deed:
        """One row of `actions`; its key is its own."""
        if asked.intent_key in book.keys:
            raise NotStorable("duplicate key value violates unique constraint on intent_key")
        book.keys.add(asked.intent_key)
        self._deeds += 1
        deed = Deed(self._deeds, key=asked.intent_key, kind=asked.kind, by=asked.by, args=asked.args, **row)
        if deed.state is not ActionState.REFUSED:
            book.deeds.append(deed)
        return deed

    # --- ports.Agents and ports.Runs ---

    async def take_lease(self, agent_id: int) -> Lease:
        self.of[agent_id].token += 1
        return Lease(agent_id, self.of[agent_id].token)

    async def check(self, lease: Lease) -> None:
        self.owned(lease)

    async def remember_account(self, lease: Lease, account_id: str, *, instead_of: str | None) -> None:
        book = self.owned(lease)
        if book.account == instead_of:
            book.account = account_id

    async def claim(self, lease: Lease, now: datetime) -> Run:
        book = self.owned(lease)
        book.runs += 1
        return Run(lease, book.runs, 1, 1, Calls((Trigger.SCHEDULE,)), now)

    async def raise_alert(self, agent_id: int, run_id: int, code: str, severity: str, message: str) -> int | None:
        del run_id, severity
        book, alert = self.of[agent_id], (code, message if code == "Model" else "")
        if alert in book.alerts:
            return None
        book.alerts.add(alert)
        self._alerts += 1
        return self._alerts

    async def resolve_alerts(self, agent_id: int, code: str) -> None:
        book = self.of[agent_id]
        book.alerts = {a for a in book.alerts if a[0] != code}

    async def ask_wake(self, run: Run, at: datetime, reason: str, *, limit: int) -> Wake | None:
        book = self.owned(run.lease)
        at = at.replace(microsecond=0)
        pending = [w for w in book.wakes.values() if w.at > run.started_at]
        for wake in pending:
            if wake.reason == reason and abs((wake.at - at).total_seconds()) < 60:
                return wake
        if len(pending) >= limit:
            return None
        self._wakes += 1
        book.wakes[self._wakes] = wake = Wake(self._wakes, at, reason, run.run_id)
        return wake

    async def cancel_wake(self, run: Run, wake_id: int) -> bool:
        return self.owned(run.lease).wakes.pop(wake_id, None) is not None

    # --- ports.Approvals ---

    async def hold(self, run: Run, asked: Asked, wish: Wish, *, expires_at: datetime, now: datetime) -> Waiting:
        row = {"run_id": run.run_id, "label": wish.label, "at": now, "wish": wish, "expires_at": expires_at}
        return self.new_deed(self.owned(run.lease), asked, state=ActionState.WAITING, **row).waiting()

    async def approve(
        self, agent_id: int, action_ids: Sequence[int], value: str, now: datetime
    ) -> tuple[tuple[Answer, ...], bool]:
        del value
        new = []
        for deed in self._waiting(agent_id, action_ids, now):
            assert deed.expires_at is not None
            deed.approved, deed.expires_at = True, max(deed.expires_at, now + APPROVED_FOR)
            new.append(Answer(deed.id, Verdict.APPROVED, is_new=True))
        return tuple(new), bool(new)

    async def reject(self, agent_id: int, action_ids: Sequence[int], now: datetime) -> tuple[Answer, ...]:
        rejected = self._waiting(agent_id, action_ids, now)
        for deed in rejected:
            deed.state = ActionState.REJECTED
        return tuple(Answer(d.id, Verdict.REJECTED, is_new=True) for d in rejected)

    def _waiting(self, agent_id: int, action_ids: Sequence[int], now: datetime) -> list[Deed]:
        return [d for d in self.waiting_deeds(agent_id, now) if d.id in action_ids]

    def waiting_deeds(self, agent_id: int, now: datetime) -> list[Deed]:
        """Those that somebody can still decide."""
        held = [d for d in self.of[agent_id].deeds if d.state is ActionState.WAITING]
        return [d for d in held if d.expires_at is not None and d.expires_at > now]

    async def expire(self, lease: Lease, now: datetime) -> tuple[Waiting, ...]:
        held = [d for d in self.owned(lease).deeds if d.state is ActionState.WAITING]
        over = [d for d in held if d.expires_at is not None and d.expires_at <= now]
        for deed in over:
            deed.state = ActionState.EXPIRED
        return tuple(d.waiting() for d in over)

    async def refuse_approved(self, run: Run, action_id: int, refusal: Refusal, now: datetime) -> bool:
        del refusal, now
        deed = self.owned(run.lease) and self.of[run.agent_id].deed(action_id)
        if not deed or deed.state is not ActionState.WAITING:
            return False
        deed.state = ActionState.REFUSED
        return True
