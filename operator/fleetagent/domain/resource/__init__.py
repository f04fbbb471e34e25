"""The FleetAgent resource: its spec and status as models, and the CRD that is made from them.

steering   mode, pause, target, schedule, budget, limits, retention, alerts
model      the endpoint and the context window        machines   market, offers, instance, time-outs
demand     the one source                             spec       all of these, in the order people write them
status     what is reported                           agent      the whole resource, and its annotations
pruned     what came back of a report
values     durations, money, moments, names           wire       camelCase and nulls
structural, crd   models → CustomResourceDefinition
"""

from fleetagent.domain.resource.agent import (
    GROUP,
    KIND,
    PLURAL,
    VERSION,
    Annotation,
    FleetAgent,
    Metadata,
    readable_status,
)
from fleetagent.domain.resource.crd import crd, crd_yaml
from fleetagent.domain.resource.demand import (
    CurioDemand,
    DemandSource,
    DemandSpec,
    HttpDemand,
    PrometheusDemand,
    StaticDemand,
)
from fleetagent.domain.resource.machines import FleetSpec, InstanceTemplate, OfferFilter, PhaseTimeouts, VastFleet
from fleetagent.domain.resource.model import RESERVED_PARAMETERS, ContextWindow, ModelEndpoint, TokenPrices
from fleetagent.domain.resource.pruned import fields, pruned
from fleetagent.domain.resource.spec import FleetAgentSpec
from fleetagent.domain.resource.status import (
    Condition,
    FleetAgentStatus,
    FleetStatus,
    RunStatus,
    SessionStatus,
    SpendStatus,
    WaitingActionStatus,
    WakeStatus,
    is_well,
)
from fleetagent.domain.resource.steering import (
    Alerts,
    Budget,
    Debounce,
    DeletionPolicy,
    Direction,
    Fallback,
    Limits,
    Mode,
    Pause,
    Retention,
    Schedule,
    Target,
    WakeLimits,
)
from fleetagent.domain.resource.values import (
    CudaVersion,
    SecretKeyRef,
    SecretRef,
    parse_duration,
    write_duration,
    write_moment,
    write_usd,
)

__all__ = [
    "GROUP",
    "KIND",
    "PLURAL",
    "RESERVED_PARAMETERS",
    "VERSION",
    "Alerts",
    "Annotation",
    "Budget",
    "Condition",
    "ContextWindow",
    "CudaVersion",
    "CurioDemand",
    "Debounce",
    "DeletionPolicy",
    "DemandSource",
    "DemandSpec",
    "Direction",
    "Fallback",
    "FleetAgent",
    "FleetAgentSpec",
    "FleetAgentStatus",
    "FleetSpec",
    "FleetStatus",
    "HttpDemand",
    "InstanceTemplate",
    "Limits",
    "Metadata",
    "Mode",
    "ModelEndpoint",
    "OfferFilter",
    "Pause",
    "PhaseTimeouts",
    "PrometheusDemand",
    "Retention",
    "RunStatus",
    "Schedule",
    "SecretKeyRef",
    "SecretRef",
    "SessionStatus",
    "SpendStatus",
    "StaticDemand",
    "Target",
    "TokenPrices",
    "VastFleet",
    "WaitingActionStatus",
    "WakeLimits",
    "WakeStatus",
    "crd",
    "crd_yaml",
    "fields",
    "is_well",
    "parse_duration",
    "pruned",
    "readable_status",
    "write_duration",
    "write_moment",
    "write_usd",
]
