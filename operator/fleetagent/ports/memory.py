"""What the agent needs of its memory, one database.

Every method is one short transaction, raises `TryLater` when the database cannot be reached, and never waits for
anybody else's work. Whatever takes a lease or a run raises `LeaseLost` when it is not held.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from fleetagent.domain.approval import Answer, Wish
from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.messages import Message
from fleetagent.domain.conversation.window import Calibration
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Instance, Waiting
from fleetagent.domain.observation import Alert
from fleetagent.domain.records import (
    Action,
    AgentKey,
    AgentRecord,
    Asked,
    Conclusion,
    LaunchIntent,
    Lease,
    Pulse,
    Renewed,
    Run,
    RunReport,
    Spent,
    Taken,
)
from fleetagent.domain.retention import Batch, Past, Place, TableSize
from fleetagent.domain.schedule import Pending, Trigger, Wake
from fleetagent.domain.settle import Change, Doomed


class Agents(Protocol):
    """Rows of agents, their leases and sessions."""

    async def meet(self, key: AgentKey, uid: str, *, floor: int, handled: Mapping[str, str]) -> AgentRecord:
        """The agent's row, made if need be. Another uid under the same name starts a new session, same run counter.

        `LeaseLost` for a resource that another has replaced: this process's watch lags behind.
        `floor` is the highest run number that the resource's status knows; `handled` its last served values.
        """

    async def take(
        self, key: AgentKey, uid: str, *, floor: int, handled: Mapping[str, str], now: datetime
    ) -> Taken | None:
        """Meet the agent and own it, or None while another process does. `LeaseLost` also when it has been deleted."""

    async def waiting(self) -> frozenset[tuple[AgentKey, str]]:
        """Whoever is called for by what no run has taken up, with a mark for each thing that changes with what it is.

        Triggers, wakes that are due, alerts that nobody was told of, runs that nobody goes on with.
        """

    async def take_lease(self, agent_id: int) -> Lease | None:
        """Own this agent, or None while another process does."""

    async def release(self, lease: Lease) -> None:
        """Let others own it at once; no error when it is lost already."""

    async def check(self, lease: Lease) -> None:
        """Return only while the lease is held: asked just before each effect."""

    async def start_session(self, lease: Lease, handled: Mapping[str, str]) -> None:
        """Archive the session and start the next one: the reset. A run that goes on is marked interrupted."""

    async def mark_handled(self, lease: Lease, handled: Mapping[str, str]) -> None:
        """Remember these values as served."""

    async def schedule(self, lease: Lease, next_scheduled_at: datetime | None, spec_hash: str) -> None:
        """Remember the next scheduled moment, and the spec it was computed from."""

    async def remember_account(self, lease: Lease, account_id: str, *, instead_of: str | None) -> None:
        """The account that this agent's machines belong to; nothing changes when it is not `instead_of` any more."""

    async def forget(self, lease: Lease, uid: str) -> None:
        """This resource is deleted: cancel wakes and pending triggers, keep the audit. Its namesake is left alone."""


class Leases(Protocol):
    """The leases of this process, apart from all else: who renews them must not queue behind who works under them."""

    async def renew(self, leases: Collection[Lease]) -> Renewed:
        """Own all these for longer; a lease that is lost is no error here."""


class Runs(Protocol):
    """Runs, and what calls for them."""

    async def persist(self, agent_id: int, kind: Trigger, value: str, words: str | None = None) -> bool:
        """Write a trigger down; False when the same one waits or was served. Needs no lease: it decides nothing."""

    async def persist_owned(self, lease: Lease, kind: Trigger, value: str) -> None:
        """As `persist`, but `LeaseLost` once another process owns the agent: it may have served the same already."""

    async def acknowledge(self, agent_id: int, alert_id: int, comment: str, value: str) -> str:
        """Mark the alert acknowledged and persist a Feedback trigger that says so; the words that the model gets."""

    async def waiting(self, agent_id: int) -> tuple[tuple[Pending, ...], tuple[Wake, ...]]:
        """Pending triggers in the order in which they came, pending wakes soonest first."""

    async def interrupt_stale(self, lease: Lease) -> tuple[int, ...]:
        """Close runs that a dead process left running; they give back their triggers (three times) and wakes."""

    async def claim(self, lease: Lease, now: datetime) -> Run:
        """Start a run: the next number, with all pending triggers and due wakes."""

    async def conclude(self, run: Run, conclusion: Conclusion) -> None:
        """End a run in one transaction: triggers and wakes served, quiet messages out of the prompt, spend booked."""

    async def interrupt(self, run: Run, because: str, *, wanted: bool = False) -> None:
        """End a run early: what it was called for is given back, three times; without limit when the end was wanted."""

    async def last(self, agent_id: int) -> RunReport | None:
        """The newest run."""

    async def ask_wake(self, run: Run, at: datetime, reason: str, *, limit: int) -> Wake | None:
        """Remember a wake; None when `limit` are pending already. The same minute and reason is the same wake.

        Another reason within a minute of a pending one shares its moment, so that many wakes are not as many runs.
        """

    async def cancel_wake(self, run: Run, wake_id: int) -> bool:
        """Cancel a pending wake of this agent."""

    async def raise_alert(self, agent_id: int, run_id: int, code: str, severity: str, message: str) -> int | None:
        """Open an alert; None when one of this code is known already, or an open one of the model with this message.

        What is known already has these words from then on, and is not told again.
        """

    async def tell_alerts(self, lease: Lease) -> tuple[Alert, ...]:
        """Alerts that nobody was told of yet, oldest first; they count as told from now on."""

    async def resolve_alerts(self, agent_id: int, code: str) -> None:
        """What they were about is over: close the alerts of this code, acknowledged or not."""


class Conversation(Protocol):
    """The messages of a session; append-only."""

    async def in_prompt(self, session_id: int) -> tuple[Message, ...]:
        """What later prompts are made of, in order."""

    async def append(self, run: Run, messages: Sequence[Message]) -> None:
        """Store messages of this run; fenced by lease and session."""

    async def compact(
        self,
        run: Run,
        *,
        method: str,
        because: str | None,
        masked_before_run: int,
        runs_left: Sequence[int],
        leaving_seqs: Sequence[int],
        summary: str | None,
        tokens_before: int,
        tokens_after: int,
    ) -> None:
        """One transaction: the messages that leave, the summary, the compaction's row."""

    async def count(
        self, run: Run, *, reported: int | None, estimated: int, counts: Counts, calibration: Calibration
    ) -> None:
        """Remember the backend's count of the last request beside our estimate of the same, and what counts told.

        Of a request that was not counted (`reported` None), the last count that there was stays with its estimate.
        """

    async def book(self, run: Run, spent: Spent) -> None:
        """Book what one answer cost, at once and whatever becomes of the run; fenced by the lease alone."""

    async def notes(self, agent_id: int, run_ids: Sequence[int]) -> tuple[RunReport, ...]:
        """Those runs, in order, with what they did: as a digest needs them."""


class Approvals(Protocol):
    """Actions that wait for a person. What a person says needs no lease: it frees or ends a row that waits, once."""

    async def hold(self, run: Run, asked: Asked, wish: Wish, *, expires_at: datetime, now: datetime) -> Waiting:
        """Write down an action that every other rule let pass: it waits until a person decides, or it expires."""

    async def approve(
        self, agent_id: int, action_ids: Sequence[int], value: str, now: datetime
    ) -> tuple[tuple[Answer, ...], bool]:
        """Free those that wait, and persist the Approval trigger of this annotation's value in the same transaction.

        An answer for each; and whether a run was called for by this: not when none waits, nor a second time.
        """

    async def reject(self, agent_id: int, action_ids: Sequence[int], now: datetime) -> tuple[Answer, ...]:
        """End those that wait, approved ones too while no run has begun them; an answer for each."""

    async def expire(self, lease: Lease, now: datetime) -> tuple[Waiting, ...]:
        """End those whose time is over; each is returned once."""

    async def refuse_approved(self, run: Run, action_id: int, refusal: Refusal, now: datetime) -> bool:
        """A guardrail refused what a person approved; False when it waits no more."""


class Ledger(Approvals, Protocol):
    """Actions and machines; written before the world hears of them. Fenced by the lease alone, never by the session."""

    async def instances(self, agent_id: int) -> tuple[Instance, ...]:
        """Every live instance, oldest first."""

    async def pulse(self, agent_id: int, run_id: int, now: datetime) -> Pulse:
        """What guardrails count."""

    async def intend_launch(self, run: Run, intent: LaunchIntent, now: datetime) -> int:
        """Write the intent and its instance; the action's id.

        One that waited for approval becomes the intent itself: `Denied` when it waits no more, and nothing is written.
        """

    async def intend_stop(
        self, lease: Lease, run_id: int, instance: Instance, *, intent_key: str, by: str, reason: str, now: datetime
    ) -> int:
        """Write the intent; the instance is `stopping` from now on; the action's id.

        An action that waited under this key becomes the intent itself, as above.
        """

    async def refuse(self, run: Run, asked: Asked, refusal: Refusal, wish: Wish | None = None) -> None:
        """Write down what a guardrail refused; with the wish where nothing but the mode held it back."""

    async def launched(self, lease: Lease, action_id: int, provider_id: str) -> None:
        """The market named the machine."""

    async def not_launched(self, lease: Lease, action_id: int, because: str, now: datetime) -> None:
        """Certainly not rented."""

    async def unclear(self, lease: Lease, action_id: int, because: str, provider_id: str | None) -> None:
        """It may have happened: counts as capacity and money until it is settled."""

    async def stop_asked(self, lease: Lease, label: str, now: datetime) -> None:
        """The market took the destroy; the instance stays `stopping` until a complete listing lacks it."""

    async def actions(self, agent_id: int, run_id: int) -> tuple[Action, ...]:
        """The actions that one run asked for or, once they were approved, began; in order."""

    async def settle(
        self, lease: Lease, changes: Sequence[Change], now: datetime, doomed: Sequence[Doomed] = ()
    ) -> None:
        """Apply what a look at the market showed, bill the time that passed, persist what is news of it as Events.

        The doomed are `stopping` from now on, as after `intend_stop`, and hosts that failed are left out for a while
        that grows with each failure. A machine is written whole or not at all; of very many, some may be written when
        it fails, and the next look goes on from there.
        """

    async def sample(self, agent_id: int, at: datetime, figures: Mapping[str, Any]) -> None:
        """One point for the plots: counts and rates of the fleet."""


class Audit(Protocol):
    """The past of all agents, as far as it is kept."""

    async def prune(self, lease: Lease, what: Past, before: datetime, place: Place) -> Batch:
        """Look at this agent's next rows, the oldest first, `()` for those; delete what is older than `before`.

        At most 1,000 rows, in one short transaction. Kept at any age: what stands in the prompt, people's words of this
        session, what waits, is open, lives or is not settled, and the newest run.
        """

    async def sizes(self) -> Mapping[str, TableSize]:
        """Every table that grows, by its name."""
