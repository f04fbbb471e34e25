"""What the operator reports. Every field is named here, since the API server silently prunes what the schema lacks."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from fleetagent.domain.resource.values import Moment, Number, Usd
from fleetagent.domain.resource.wire import Wire

MAX_PENDING_WAKES = 100  # as many as spec.schedule.wakes.limit may allow
MAX_CONDITIONS = 32
MAX_WAITING_ACTIONS = 20
WAKES_SHOWN = 20
NEVER_OBSERVED = -1
"""As `metadata.generation` never is: whatever goes by kstatus takes an agent that nobody has seen for unfinished."""

_COUNT = Field(ge=0, le=9_007_199_254_740_991, json_schema_extra={"format": "int64"})


def _clipped(most: int) -> BeforeValidator:
    """Cut what has too many bytes, saying so: long sentences must not cost us the whole report, whatever their script.

    All of it together stays below 32 kB: a watch sends the whole resource at every change.
    """

    def clip(value: Any) -> Any:
        if (
            not isinstance(value, str)
            or len(value) * 4 <= most
            or len(encoded := value.encode("utf-8", "replace")) <= most
        ):
            return value
        return encoded[: most - 4].decode("utf-8", "ignore") + " …"

    return BeforeValidator(clip)


def _rounded(decimals: int) -> AfterValidator:
    """More would only make the status change, and be written, at every look."""
    return AfterValidator(lambda number: round(number, decimals))


Count = Annotated[int, _COUNT]
Rate = Annotated[Number, _rounded(2)]
Cost = Annotated[Usd, _rounded(4)]
At = Annotated[Moment, AfterValidator(lambda moment: moment.replace(microsecond=0))]  # as Kubernetes writes its own
# The definition allows more than we write: a status of an older operator must be readable and writable, too.
Word = Annotated[str, _clipped(32), Field(max_length=253)]
Label = Annotated[str, _clipped(80), Field(max_length=253)]
Value = Annotated[str, _clipped(253), Field(max_length=253)]
Aside = Annotated[str, _clipped(160), Field(max_length=1024)]
Sentence = Annotated[str, _clipped(700), Field(max_length=1024)]
Words = Annotated[str, _clipped(700), Field(max_length=32_768)]


class Condition(Wire):
    """One aspect of the agent's state, as Kubernetes' own conditions."""

    type: str = Field(
        max_length=316,
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    )
    """Name of the condition, such as Ready."""

    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""

    observed_generation: Count | None = None
    """metadata.generation that the condition was computed from."""

    last_transition_time: At
    """When status last changed."""

    reason: str = Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    """One CamelCase word for machines."""

    message: Words
    """A sentence for people."""


BAD_WHEN_TRUE = frozenset({"Suspended", "ControllerDeciding", "Stalled"})
"""All other conditions are as they should be while they are True."""


def is_well(kind: str, status: str | None) -> bool | None:
    """Whether a condition is as it should be; None while nobody knows."""
    return None if status not in {"True", "False"} else (status == "True") != (kind in BAD_WHEN_TRUE)


class SessionStatus(Wire):
    """The conversation since the last reset."""

    id: Count
    """Number of the session; each reset starts the next one."""

    started_at: At | None = None
    """When the session began."""

    messages: Count | None = None
    """Messages that are in the prompt."""

    compactions: Count | None = None
    """How often the session was compacted."""

    context_tokens: Count | None = None
    """Tokens of the last request, as the model's backend counted them (prompt_tokens)."""

    estimated_tokens: Count | None = None
    """Tokens of the last request, as we had estimated them."""

    next_prompt_tokens: Count | None = None
    """Our estimate of the next request, in tokens."""


class RunStatus(Wire):
    """The last run."""

    id: Count
    """Number of the run; it only ever rises."""

    triggers: tuple[Word, ...] = Field((), max_length=16)
    """Why it started: Schedule, Wake, Request, Event, SpecChange, Feedback, Approval."""

    started_at: At | None = None
    """When it began."""

    finished_at: At | None = None
    """When it ended; absent while it goes on."""

    outcome: Word | None = None
    """How it ended, in one word, such as Acted, Held, Skipped, Failed."""

    summary: Sentence | None = None
    """What it did, in a sentence."""


class WakeStatus(Wire):
    """A future run that the model asked for."""

    id: Count
    """Number of the wake."""

    at: At
    """When it is due."""

    reason: Aside | None = None
    """What the model wants to look at."""

    asked_by_run: Count | None = None
    """The run that asked for it."""


class WaitingActionStatus(Wire):
    """An action that waits for a person, in mode Approve."""

    id: Word
    """Its name for the annotations fleetagent.dev/approve and fleetagent.dev/reject, such as action-42."""

    kind: Word
    """launch or stop."""

    what: Label | None = None
    """The machine, such as 1x RTX 5090."""

    usd_per_hour: Cost | None = None
    """Its price, storage included, in USD per hour."""

    reason: Aside | None = None
    """Why the agent wants it."""

    expires_at: At
    """Until when it waits."""


class FleetStatus(Wire):
    """The fleet at the last complete look."""

    instances: Count | None = None
    """Machines that bill or may bill."""

    proving: Count | None = None
    """Machines that prove."""

    on_the_way: Count | None = None
    """Machines that load, fetch parameters or run their benchmark."""

    proofs_per_hour: Rate | None = None
    """Measured rate of the proving machines, in proofs per hour."""

    projected_proofs_per_hour: Rate | None = None
    """Proving rate plus what is expected of the machines on their way, in proofs per hour."""

    usd_per_hour: Cost | None = None
    """Cost of all machines, storage included, in USD per hour."""

    observed_at: At | None = None
    """When the fleet was seen."""


class SpendStatus(Wire):
    """What the current UTC day has cost."""

    fleet_usd_today: Cost | None = None
    """Cost of the machines since UTC midnight, in USD."""

    model_tokens_today: Count | None = None
    """Model tokens since UTC midnight, prompt and reply together."""


class FleetAgentStatus(Wire):
    """What the agent has done, sees and waits for."""

    observed_generation: int = Field(
        NEVER_OBSERVED, ge=NEVER_OBSERVED, le=9_007_199_254_740_991, json_schema_extra={"format": "int64"}
    )
    """metadata.generation that this status was computed from; -1 before the operator has looked."""

    last_run_id: Count | None = None
    """Highest run number so far; the next run is above it."""

    last_handled_request: Value | None = None
    """Last served value of annotation fleetagent.dev/requested-at."""

    last_handled_reset: Value | None = None
    """Last served value of annotation fleetagent.dev/reset-requested-at."""

    last_handled_message: Value | None = None
    """Hash of the last served value of annotation fleetagent.dev/message."""

    last_handled_acknowledge: Value | None = None
    """Last served value of annotation fleetagent.dev/acknowledge."""

    last_handled_approve: Value | None = None
    """Last served value of annotation fleetagent.dev/approve."""

    last_handled_reject: Value | None = None
    """Last served value of annotation fleetagent.dev/reject."""

    last_handled_session: Value | None = None
    """Last served value of spec.context.session."""

    session: SessionStatus | None = None
    """The conversation since the last reset."""

    last_run: RunStatus | None = None
    """The last run."""

    next_run_at: At | None = None
    """When the next run is due, if nothing happens before."""

    pending_wakes: tuple[WakeStatus, ...] = Field((), max_length=MAX_PENDING_WAKES)
    """Future runs that the model asked for, soonest first, at most 20."""

    waiting_actions: tuple[WaitingActionStatus, ...] = Field((), max_length=MAX_WAITING_ACTIONS)
    """Actions that wait for a person, in mode Approve; the oldest first, at most 20."""

    fleet: FleetStatus | None = None
    """The fleet at the last complete look."""

    spend: SpendStatus | None = None
    """What the current UTC day has cost."""

    open_alerts: Count | None = None
    """Alerts that nobody has acknowledged."""

    conditions: tuple[Condition, ...] = Field(
        (),
        max_length=MAX_CONDITIONS,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Ready, OnTarget, ModelAvailable, FleetKnown, DemandKnown, WithinBudget, Suspended and others."""

    def to_merge_patch(self) -> dict[str, Any]:
        """The status as a merge patch: what is None becomes null, so that a stale value does not stay."""
        return {
            name: _nulls_in_objects_only(value) for name, value in self.model_dump(mode="json", by_alias=True).items()
        }


def _nulls_in_objects_only(value: Any) -> Any:
    """A merge patch replaces lists as they are: a null in there would delete nothing and be stored."""
    if isinstance(value, list):
        return [{name: part for name, part in item.items() if part is not None} for item in value]
    return value
