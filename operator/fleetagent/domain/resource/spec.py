"""The whole spec of a FleetAgent, in the order in which people write it."""

from pydantic import Field

from fleetagent.domain.resource.demand import DemandSpec
from fleetagent.domain.resource.machines import FleetSpec
from fleetagent.domain.resource.model import ContextWindow, ModelEndpoint
from fleetagent.domain.resource.steering import (
    Alerts,
    Budget,
    DeletionPolicy,
    Fallback,
    Limits,
    Mode,
    Pause,
    Retention,
    Schedule,
    Target,
)
from fleetagent.domain.resource.values import TEXT_PATTERN, Duration, lasting
from fleetagent.domain.resource.wire import Wire


class FleetAgentSpec(Wire):
    """What an agent shall keep, by which means, and within which limits."""

    mode: Mode = Mode.ACT
    """Act; Approve: each action waits until a person agrees; DryRun: no effects; Suspended: no runs."""

    pause: Pause | None = None
    """Refuses launches, stops or both until a moment, then ends by itself. Runs go on."""

    target: Target
    """The proving rate to keep."""

    schedule: Schedule = Schedule()
    """When the agent runs."""

    model: ModelEndpoint
    """The language model that decides."""

    context: ContextWindow = ContextWindow()
    """How much of the conversation the model sees."""

    budget: Budget
    """What may be spent."""

    limits: Limits = Limits()
    """Hard limits for what the agent does, whatever the model says."""

    fleet: FleetSpec
    """Where machines are rented, which ones, and what runs on them."""

    demand: DemandSpec
    """Where the agent learns whether proofs are wanted: exactly one of curio, prometheus, http and static."""

    instructions: str = Field("", max_length=16_384, pattern=TEXT_PATTERN)
    """Standing words to the agent, part of every prompt; at most 16,384 characters."""

    fallback: Fallback = Fallback.HOLD
    """Who decides while the model fails for long: Hold (nobody) or Controller (arithmetic, under the same rules)."""

    approval_expiry: Duration = lasting("15m", least="1s", most="24h")
    """How long an action waits for a person in mode Approve."""

    deletion_policy: DeletionPolicy = DeletionPolicy.DESTROY
    """What happens to the rented machines when this resource is deleted. Retained machines keep billing."""

    retention: Retention = Retention()
    """How long the audit is kept."""

    alerts: Alerts | None = None
    """Where alerts go outside the cluster. Absent: nowhere (not in this version: nowhere in any case)."""
