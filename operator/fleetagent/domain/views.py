"""What people read of an agent's past and present: one shape for page, API and plugin; the database fills it.

Money is a decimal as text, in USD; times are aware UTC; tokens are the model backend's counts unless the name says
`estimated`. What is None is left out on the wire.
"""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeVar

from pydantic import ConfigDict, PlainSerializer, WithJsonSchema

from fleetagent.domain.resource.values import Moment, write_usd
from fleetagent.domain.resource.wire import Wire

Row = TypeVar("Row")

Usd = Annotated[
    Decimal,
    PlainSerializer(write_usd, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^-?[0-9]+\.[0-9]{2,}$"}),
]
"""`str` would write the smallest amounts with an exponent."""


class Page(Wire, Generic[Row]):
    """Some rows of many, newest first unless said otherwise. `next` asks for what follows; absent at the end.

    Where a filter leaves little, so many rows are looked through and no more: there may be a `next` behind no item.
    """

    # To find docstrings of fields, pydantic reads the source around each `Page[…]`, and stumbles where it is no class.
    model_config = ConfigDict(use_attribute_docstrings=False)

    items: tuple[Row, ...]
    next: str | None = None


class SampleView(Wire):
    """The fleet at one moment, as a look at it was written down. Rates are proofs per hour."""

    at: Moment
    proving: int
    on_the_way: int
    proofs_per_hour: float
    projected_proofs_per_hour: float
    target_proofs_per_hour: float
    usd_per_hour: Usd


class SessionView(Wire):
    """A conversation between two resets."""

    id: int
    epoch: int
    started_at: Moment
    ended_at: Moment | None = None
    messages: int
    messages_in_prompt: int
    compactions: int
    summary: str | None = None
    masked_before_run: int = 0
    """Of runs before this one, observations and tool results are left out of the prompt."""
    context_tokens: int | None = None
    """The backend's prompt_tokens of the last request."""
    estimated_tokens: int | None = None
    """What had been estimated for that request."""
    next_prompt_tokens: int | None = None
    """An estimate of the next one."""


class RunRow(Wire):
    """One run in a list."""

    run_id: int
    session_id: int
    state: str
    triggers: tuple[str, ...]
    started_at: Moment
    finished_at: Moment | None = None
    outcome: str | None = None
    reason: str | None = None
    summary: str | None = None
    error: str | None = None
    quiet: bool
    model_calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_estimated: bool
    """Whether an estimate of ours stands in for a count."""
    usd: Usd
    actions: int
    refusals: int


class ActionView(Wire):
    """One row of the ledger."""

    id: int
    run_id: int
    """0: by code, between runs."""
    kind: str
    by: str
    state: str
    args: Mapping[str, Any]
    refusal_code: str | None = None
    refusal: str | None = None
    error: str | None = None
    label: str | None = None
    provider_ref: str | None = None
    usd_per_hour: Usd | None = None
    what: str | None = None
    """The machine in a few words, where nothing has happened yet."""
    proofs_per_hour: float | None = None
    created_at: Moment
    settled_at: Moment | None = None
    expires_at: Moment | None = None
    """In mode Approve: how long it waits for a person."""
    approved_at: Moment | None = None
    executed_by_run: int | None = None


class MessageView(Wire):
    """One message of a session. `history_content` is what later runs see of it; absent: all of it."""

    seq: int
    session_id: int
    run_id: int
    at: Moment
    kind: str
    role: str
    content: str
    history_content: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    tool_call_id: str | None = None
    estimated_tokens: int
    left_prompt_because: str | None = None
    """quiet, compacted, reset or interrupted; absent: the model sees it."""


class CompactionView(Wire):
    """What once left the prompt, and why."""

    id: int
    session_id: int
    run_id: int
    at: Moment
    method: str
    because: str | None = None
    runs_left: tuple[int, ...]
    masked_before_run: int
    tokens_before: int
    tokens_after: int
    summary: str | None = None


class RunView(Wire):
    """One run with all that belongs to it."""

    run: RunRow
    verdict: Mapping[str, Any] | None = None
    """As the ledger shows it."""
    verdict_said: Mapping[str, Any] | None = None
    """As the model said it."""
    actions: tuple[ActionView, ...]
    messages: tuple[MessageView, ...]
    compactions: tuple[CompactionView, ...]


class WakeView(Wire):
    """A future run that the model asked for."""

    id: int
    at: Moment
    reason: str
    state: str
    asked_by_run: int
    claimed_by_run: int | None = None
    created_at: Moment


class AlertView(Wire):
    """An alert. `state` is open, acknowledged or resolved."""

    id: int
    run_id: int
    code: str
    severity: str
    message: str
    state: str
    comment: str | None = None
    created_at: Moment
    acknowledged_at: Moment | None = None
    resolved_at: Moment | None = None


class PhaseAt(Wire):
    """When a machine came into a phase."""

    phase: str
    at: Moment


class MachineView(Wire):
    """A rented machine of the ledger. Rates are proofs per hour."""

    number: int
    """m<number> is its name towards the model."""
    label: str
    provider_id: str | None = None
    phase: str
    phase_since: Moment
    timeline: tuple[PhaseAt, ...]
    requested_at: Moment
    gone_at: Moment | None = None
    host_id: str
    gpu_name: str
    num_gpus: int
    usd_per_hour: Usd
    expected_rate: float
    measured_rate: float | None = None
    min_rate: int
    market_status: str | None = None
    failure: str | None = None


class HostView(Wire):
    """What is remembered of a host with one kind of GPU."""

    host_id: str
    gpu_name: str
    num_gpus: int
    rates: tuple[float, ...]
    measured_at: Moment | None = None
    failures: int
    failed_at: Moment | None = None
    excluded_until: Moment | None = None
    last_failure: str | None = None


class SpendView(Wire):
    """What one UTC day cost."""

    day: date
    fleet_usd: Usd
    model_usd: Usd
    model_tokens: int


class AgentRow(Wire):
    """One agent in a list, as the database knows it; its spec and status are the API server's."""

    namespace: str
    name: str
    uid: str
    deleted_at: Moment | None = None
    last_run_id: int
    next_scheduled_at: Moment | None = None
    open_alerts: int
    waiting_actions: int
    pending_wakes: int
    last_run: RunRow | None = None
    session: SessionView | None = None
    sample: SampleView | None = None
    spend_today: SpendView | None = None


class AgentView(AgentRow):
    """One agent, with its resource as the API server has it; without one when there is none (any more)."""

    spec: Mapping[str, Any] | None = None
    status: Mapping[str, Any] | None = None
