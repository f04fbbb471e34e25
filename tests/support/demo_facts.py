"""One look at the demo. A test names only what matters to it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from fleetagent.dev.facts import Facts, Ledger, Machine, MarketFacts, ModelFacts, PastRun, RentedMachine
from fleetagent.domain.resource import FleetAgent
from support.manifests import a_spec, merged

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PREFIX = "fa/d5cceba925a1/"


def a_machine(number: int = 1, **changes: Any) -> Machine:
    """A proving one, for 50 cents and 100 proofs per hour."""
    usual: dict[str, Any] = {
        "namespace": "default",
        "name": "porep",
        "label": f"{PREFIX}intent{number}",
        "provider_id": str(50_300_000 + number),
        "phase": "proving",
        "phase_since": NOW - timedelta(seconds=7),
        "gpu_name": "RTX 5090",
        "num_gpus": 1,
        "expected_rate": 96.0,
        "measured_rate": 100.0,
        "usd_per_hour": Decimal("0.50"),
    }
    return Machine(**{**usual, **changes})


def a_rented(number: int = 1, **changes: Any) -> RentedMachine:
    """The same machine as the market has it."""
    usual = {"id": str(50_300_000 + number), "label": f"{PREFIX}intent{number}", "usd_per_hour": Decimal("0.50")}
    return RentedMachine(**{**usual, **changes})


def a_run(run_id: int = 1, **changes: Any) -> PastRun:
    """A finished one."""
    usual: dict[str, Any] = {
        "run_id": run_id,
        "state": "finished",
        "triggers": ["Schedule"],
        "outcome": "Acted",
        "summary": "launch 50300001",
        "error": None,
        "started_at": NOW - timedelta(seconds=12),
    }
    return PastRun(**{**usual, **changes})


def an_agent(*, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> FleetAgent:
    """On a target of 300 proofs per hour with three machines."""
    usual = {
        "observedGeneration": 1,
        "fleet": {
            "instances": 3,
            "proving": 3,
            "onTheWay": 0,
            "proofsPerHour": 300,
            "projectedProofsPerHour": 300,
            "usdPerHour": "1.50",
        },
        "conditions": [a_condition("Ready"), a_condition("OnTarget", reason="Reached", message="projected 300 of 300")],
    }
    return FleetAgent.stored(
        {
            "metadata": {"namespace": "default", "name": "porep", "uid": "u", "generation": 1},
            "spec": a_spec(**merged({"target": {"proofsPerHour": 300}}, spec or {})),
            "status": merged(usual, status or {}),
        }
    )


def a_condition(kind: str, status: str = "True", *, reason: str = "Fine", message: str = "all is well") -> Any:
    """As it stands in a status."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-11-30T11:59:00Z",
    }


def facts(**changes: Any) -> Facts:
    """Three machines prove 300 of 300 proofs per hour, and everybody agrees."""
    numbers = (1, 2, 3)
    usual: dict[str, Any] = {
        "at": NOW,
        "label_prefix": PREFIX,
        "agent": an_agent(),
        "ledger": a_ledger(machines=tuple(map(a_machine, numbers))),
        "market": MarketFacts(machines=tuple(map(a_rented, numbers)), creates=3),
        "model": ModelFacts(requests=9, violations={}),
    }
    return Facts(**{**usual, **changes})


def a_ledger(**changes: Any) -> Ledger:
    """Without machines, runs and alerts."""
    usual: dict[str, Any] = {"machines": (), "runs": (), "alerts": (), "launches": 3}
    return Ledger(**{**usual, **changes})
