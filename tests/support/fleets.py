"""Machines, offers and facts as the domain sees them. A test names only what matters to it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from fleetagent.domain.capacity import Target, effective_target
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.facts import Facts
from fleetagent.domain.fleet import (
    Fleet,
    FleetUnknown,
    Instance,
    MarketStatus,
    Offer,
    Order,
    Phase,
    Rented,
    Told,
    Waiting,
)
from fleetagent.domain.observation import Observation
from fleetagent.domain.resource import Condition
from support.manifests import a_parsed_spec

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
ACTIVE = Demand(active=True)
PREFIX = "fa/0123456789ab/"
"""How this agent's labels begin."""


def ago(**span: float) -> datetime:
    """A moment before now: `ago(minutes=5)`."""
    return NOW - timedelta(**span)


def an_offer(offer_id: str = "7001", **changes: Any) -> Offer:
    """A good machine with one RTX 5090 and 120 expected proofs/h, for 0.50 USD/h, on a host of its own."""
    usual = Offer(
        offer_id=offer_id,
        machine_id=f"m{offer_id}",
        gpu_name="RTX 5090",
        num_gpus=1,
        gpu_ram_gb=32.0,
        cpu_ram_gb=768.0,
        cpu_cores=64.0,
        disk_gb=900.0,
        download_mbps=800.0,
        cuda_version="13.0",
        reliability=0.99,
        usd_per_hour=Decimal("0.50"),
        verified=True,
        country="DE",
    )
    return replace(usual, **_decimals(changes))


def an_instance(provider_id: str | None = "9001", phase: Phase = Phase.PROVING, **changes: Any) -> Instance:
    """A machine of ours that was asked for two hours ago and makes 100 proofs/h for 0.50 USD/h."""
    usual = Instance(
        label=f"{PREFIX}{provider_id or 'intent'}",
        provider_id=provider_id,
        phase=phase,
        phase_since=ago(hours=1),
        requested_at=ago(hours=2),
        machine_id=f"m{provider_id}",
        gpu_name="RTX 5090",
        num_gpus=1,
        cpu_ram_gb=768.0,
        cpu_cores=64.0,
        usd_per_hour=Decimal("0.50"),
        expected_rate=100.0,
        measured_rate=100.0 if phase is Phase.PROVING else None,
        market_status=MarketStatus.RUNNING if provider_id else None,
    )
    told = Told(replace(usual, **_decimals(changes)).usd_per_hour if phase is not Phase.REQUESTED else None)
    return replace(usual, **{"told": told, **_decimals(changes)})


def a_waiting(action_id: int = 42, kind: Literal["launch", "stop"] = "launch", **changes: Any) -> Waiting:
    """An action that waits for a person until a quarter past: to rent offer 7001 for 0.50 USD/h, or to stop 9001."""
    launches = kind == "launch"
    usual = Waiting(
        action_id=action_id,
        kind=kind,
        run_id=1,
        by="model",
        intent_key=f"1:1:{action_id}",
        reason="as planned",
        what="1x RTX 5090" if launches else "9001, 1x RTX 5090",
        usd_per_hour=Decimal("0.50"),
        proofs_per_hour=100.0,
        expires_at=NOW + timedelta(minutes=15),
        offer=an_offer() if launches else None,
        label=None if launches else an_instance().label,
    )
    return replace(usual, **_decimals(changes))


def as_listed(instance: Instance, **changes: Any) -> Rented:
    """How the market lists this machine."""
    return _listed(instance.provider_id or "9001", instance.label, instance, changes)


def as_rented(order: Order, offer: Offer, provider_id: str, **changes: Any) -> Rented:
    """How the market lists the machine that came of this order."""
    return _listed(provider_id, order.label, offer, changes)


def _listed(provider_id: str, label: str, what: Instance | Offer, changes: dict[str, Any]) -> Rented:
    usual = Rented(
        provider_id=provider_id,
        label=label,
        status=MarketStatus.RUNNING,
        status_message="",
        machine_id=what.machine_id,
        gpu_name=what.gpu_name,
        num_gpus=what.num_gpus,
        cpu_ram_gb=what.cpu_ram_gb,
        cpu_cores=what.cpu_cores,
        usd_per_hour=what.usd_per_hour,
    )
    return replace(usual, **_decimals(changes))


def a_fleet(*instances: Instance) -> Fleet:
    """These machines and no others, seen now."""
    return Fleet(instances, NOW)


def facts(*instances: Instance, spec: dict[str, Any] | None = None, **changes: Any) -> Facts:
    """What guardrails are told: a fleet of these machines, a target of 500, offer 7001 shown and still there."""
    parsed = a_parsed_spec(**(spec or {}))
    demand = changes.get("demand", ACTIVE)
    usual = Facts(
        now=NOW,
        spec=parsed,
        fleet=a_fleet(*instances),
        demand=demand,
        target=_target(parsed, demand),
        offers_shown={"7001": an_offer()},
        offer_now=an_offer(),
        hosts_excluded={},
        launches_this_run=0,
        launches_last_hour=0,
        stops_this_run=0,
        usd_spent_today=Decimal(0),
        installation_stop=None,
        workers_can_report=True,
    )
    return replace(usual, **_decimals(changes))


def an_observation(*instances: Instance, wanted: float = 500, **changes: Any) -> Observation:
    """What was seen now: a fleet of these machines, demand active, nothing spent."""
    demand = changes.get("demand", ACTIVE)
    usual = Observation(
        at=NOW,
        fleet=a_fleet(*instances),
        demand=demand,
        target=effective_target(wanted, 3, 0, demand),
        usd_spent_today=Decimal(0),
        open_alerts=0,
    )
    return replace(usual, **_decimals(changes))


def a_condition(name: str, status: Any, reason: str = "Because", *, message: str = "words") -> Condition:
    """A condition as it stands in the status since now."""
    return Condition(type=name, status=status, reason=reason, message=message, last_transition_time=NOW)


def unknown_fleet(*instances: Instance) -> FleetUnknown:
    """A fleet of which only the past is known."""
    return FleetUnknown("the list of machines can't be read", a_fleet(*instances))


def _target(spec: Any, demand: Demand | DemandUnknown) -> Target | None:
    tolerance, floor = float(spec.target.tolerance_percent), spec.limits.min_instances
    return effective_target(spec.target.proofs_per_hour, tolerance, floor, demand)


def _decimals(changes: dict[str, Any]) -> dict[str, Any]:
    """Money may be written as a text."""
    return {k: Decimal(v) if k.startswith("usd_") and isinstance(v, str) else v for k, v in changes.items()}
