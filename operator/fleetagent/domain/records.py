"""What the database knows, as the agent uses it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from fleetagent.domain.approval import Decided
from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.window import Calibration
from fleetagent.domain.fleet import Waiting
from fleetagent.domain.observation import Alert, Calls
from fleetagent.domain.rates import HostKey, KindKey
from fleetagent.domain.schedule import Pending, Wake

HIGHEST_ID = 2**63 - 1
"""The highest number that a run, a session or any other row can have: that of a bigint."""


@dataclass(frozen=True, slots=True)
class AgentKey:
    """A FleetAgent's name within this operator's cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for one agent; whoever takes it next gets a higher token."""

    agent_id: int
    token: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """What became of leases that were to be held for longer; of the others nothing is to be said."""

    lost: frozenset[Lease]
    later: frozenset[Lease]
    """Still held, but their rows are being written just now: they must be asked for again soon."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The conversation since the last reset. Token counts are None before the first request."""

    id: int
    epoch: int
    started_at: datetime
    compactions: int
    summary: str | None
    masked_before_run: int
    context_tokens: int | None
    estimated_tokens: int | None
    next_prompt_tokens: int | None
    messages_in_prompt: int
    feedback_dropped: int = 0
    """People's messages that a compaction had no room for."""
    counts: Counts | None = None
    """What the server's counts told of it; None before the first."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """The last quiet verdict: what the world looked like, and when a model last looked at it."""

    fingerprint: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One agent's row. `handled` maps an annotation's short name (request, reset, …) to its last served value."""

    id: int
    key: AgentKey
    uid: str
    last_run_id: int
    handled: Mapping[str, str]
    spec_hash: str | None
    next_scheduled_at: datetime | None
    account_id: str | None
    calibration: Mapping[str, Calibration]
    quiet: Quiet | None
    model_failing_since: datetime | None
    session: SessionRecord
    alerted: frozenset[str]
    """The codes of alerts that are not over."""
    deleted: bool = False
    """The resource with this uid has been deleted to the end: nothing may run for it any more."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An agent that is owned now: its row, and what waits for it, as they are under the lease."""

    lease: Lease
    record: AgentRecord
    pending: tuple[Pending, ...]
    wakes: tuple[Wake, ...]
    left_running: bool
    """Whether a process that is dead has left a run behind."""
    waited_too_long: bool
    """Whether an action waits for a person whose time is over."""
    untold: bool
    """Whether there are alerts that nobody was told of."""
    last: "RunReport | None"
    """The newest run."""


class Outcome(StrEnum):
    """How a run ended."""

    ACTED = "Acted"
    HELD = "Held"
    REFUSED = "Refused"  # it wanted to act and every action was refused
    UNCLEAR = "Unclear"  # an effect of it is not settled yet
    WAITING = "Waiting"  # an action of it waits for a person
    SKIPPED = "Skipped"
    FAILED = "Failed"
    CONTEXT_FULL = "ContextFull"
    NO_PROGRESS = "NoProgress"
    INTERRUPTED = "Interrupted"


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is going on: it holds the lease, and belongs to one session."""

    lease: Lease
    run_id: int
    session_id: int
    epoch: int
    calls: Calls
    started_at: datetime

    @property
    def agent_id(self) -> int:
        """The agent's row."""
        return self.lease.agent_id


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of the model cost. Tokens are the backend's counts, our estimates where it does not count."""

    model_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    usd: Decimal = Decimal(0)
    tokens_estimated: bool = False
    """Whether an estimate of ours stands in for a count."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            self.model_calls + other.model_calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.tokens_cached + other.tokens_cached,
            self.usd + other.usd,
            self.tokens_estimated or other.tokens_estimated,
        )


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a run ended, for the one transaction that ends it. Tokens are counts of the model's backend."""

    outcome: Outcome
    summary: str
    quiet: bool
    verdict: Mapping[str, bool]
    verdict_said: Mapping[str, Any] | None
    error: str | None
    model_calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    usd: Decimal
    fingerprint: str | None
    """What the world looked like when a model looked at it and kept quiet; None when that must not be relied upon."""
    model_failed: bool | None
    """None: the model was not asked."""
    next_prompt_tokens: int | None = None
    """Our estimate of the next run's first request, without what it will add."""
    reason: str | None = None
    """One word for why the run failed, as conditions name it."""
    told: tuple[int, ...] = ()
    """Actions whose decision the agent was told in this run: not again."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as status and reports show it."""

    run_id: int
    triggers: tuple[str, ...]
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None
    summary: str | None
    error: str | None
    reason: str | None = None
    actions: "tuple[Action, ...]" = ()
    """What it did and was refused; where a report is asked for with them."""


class ActionState(StrEnum):
    """Where an action stands."""

    INTENDED = "intended"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    WAITING = "waiting"
    REJECTED = "rejected"
    EXPIRED = "expired"


EFFECTS = frozenset({ActionState.INTENDED, ActionState.DONE, ActionState.UNKNOWN})
"""States of an action that has, or may have, changed the fleet."""


@dataclass(frozen=True, slots=True)
class Action:
    """One row of the ledger."""

    id: int
    run_id: int
    kind: str
    state: ActionState
    label: str | None
    provider_ref: str | None
    refusal_code: str | None
    reason: str
    what: str | None = None
    """The machine in a few words, where nothing has happened (yet)."""
    usd_per_hour: Decimal | None = None
    proofs_per_hour: float | None = None

    @property
    def machine(self) -> str | None:
        """The name that people know the machine by; None when no machine ever came of it."""
        return (self.provider_ref or self.label) if self.state in EFFECTS else None

    @property
    def words(self) -> str:
        """What became of it, in a few words."""
        if self.state is ActionState.REFUSED:
            return f"{self.kind} refused ({self.refusal_code})"
        if self.state in {ActionState.WAITING, ActionState.REJECTED, ActionState.EXPIRED}:
            return f"{self.kind} {self.what} ({self.state}: action-{self.id})"
        return f"{self.kind} {self.provider_ref or self.label or 'of nothing'} ({self.state})"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, by whom, under which key; `approved` is the action that waited and goes on, if one did."""

    kind: str
    intent_key: str
    by: str
    args: Mapping[str, Any]
    approved: int | None = None


@dataclass(frozen=True, slots=True)
class LaunchIntent:
    """What is written down before a machine is rented."""

    asked: Asked
    label: str
    machine_id: str
    gpu_name: str
    num_gpus: int
    cpu_ram_gb: float
    cpu_cores: float
    usd_per_hour: Decimal
    expected_rate: float
    min_rate: int
    worker_token_hash: str


@dataclass(frozen=True, slots=True)
class Pulse:
    """What the ledger counts for guardrails: launches and stops of this run and the last hour, today's bill."""

    launches_this_run: int
    stops_this_run: int
    launches_last_hour: int
    usd_spent_today: Decimal
    model_tokens_today: int
    hosts_excluded: Mapping[str, datetime] = field(default_factory=dict)
    offers_denied: frozenset[str] = frozenset()
    """Offers that were gone when we lately tried to rent them."""
    host_rates: Mapping[HostKey, float] = field(default_factory=dict)
    """Proofs per hour that hosts made when they were measured, the mean of the last times."""
    kind_rates: Mapping[KindKey, float] = field(default_factory=dict)
    """The same of machines alike, where enough hosts were measured."""
    open_alerts: int = 0
    alerts: tuple[Alert, ...] = ()
    """The newest of the open ones, as far as they are shown to the model."""
    waiting: tuple[Waiting, ...] = ()
    """Actions that wait for somebody's approval, oldest first."""
    decided: tuple[Decided, ...] = ()
    """What became of those that waited, as far as the agent was not told yet."""
