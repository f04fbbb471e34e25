"""The whole report stays small, whatever stands in it: every watcher gets all of it at each change."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.fleet import FleetUnknown
from fleetagent.domain.observation import LaunchProblem
from fleetagent.domain.records import Outcome
from fleetagent.domain.resource import (
    FleetAgentStatus,
    FleetStatus,
    RunStatus,
    SessionStatus,
    SpendStatus,
    WaitingActionStatus,
    WakeStatus,
)
from fleetagent.domain.resource.status import MAX_WAITING_ACTIONS, WAKES_SHOWN
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.status import Finding, Health, findings, merged
from support.fleets import an_observation
from support.manifests import a_parsed_spec

MOST_BYTES = 32_000
MANY = 2**53 - 1
MUCH = Decimal("999999999.9999")
THEN = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def the_largest(words: str) -> FleetAgentStatus:
    """A status that has everything, and as much of it as can be; every text is as long as it may be."""
    value = words[: 253 // len(words[0].encode())]
    spec = a_parsed_spec(
        mode="Suspended",
        pause={"until": "2999-01-01T00:00:00Z", "reason": words[:1024], "directions": ["Up", "Down"]},
        alerts={"notifySecretRef": {"name": "pager", "key": "urls"}},
    )
    seen = an_observation(
        fleet=FleetUnknown(words),
        demand=DemandUnknown(words),
        target=None,
        launch_problem=LaunchProblem("InstallationStopped", words),
    )
    health = Health(
        ("Unavailable", words),
        model_asked=True,
        problems=tuple(Finding(name, "False", "InvalidSpec", words) for name in ("Ready", "OnTarget", "WithinBudget")),
        last_outcome=Outcome.CONTEXT_FULL,
        last_error=words,
        dropped=tuple(f"status.{value}{n}" for n in range(50)),
    )
    conditions = merged((), findings(spec, seen, health, THEN), THEN, MANY)
    return FleetAgentStatus(
        observed_generation=MANY,
        last_run_id=MANY,
        **{f"last_handled_{name}": value for name in ("request", "reset", "message", "acknowledge")},
        **{f"last_handled_{name}": value for name in ("approve", "reject", "session")},
        session=SessionStatus(
            id=MANY,
            started_at=THEN,
            messages=MANY,
            compactions=MANY,
            context_tokens=MANY,
            estimated_tokens=MANY,
            next_prompt_tokens=MANY,
        ),
        last_run=RunStatus(
            id=MANY, triggers=tuple(Trigger), started_at=THEN, finished_at=THEN, outcome="ContextFull", summary=words
        ),
        next_run_at=THEN,
        pending_wakes=tuple(
            WakeStatus(id=MANY, at=THEN + timedelta(1), reason=words, asked_by_run=MANY) for _ in range(WAKES_SHOWN)
        ),
        waiting_actions=tuple(
            WaitingActionStatus(
                id=f"action-{MANY}", kind="launch", what=words, usd_per_hour=MUCH, reason=words, expires_at=THEN
            )
            for _ in range(MAX_WAITING_ACTIONS)
        ),
        fleet=FleetStatus(
            instances=MANY,
            proving=MANY,
            on_the_way=MANY,
            proofs_per_hour=MUCH,
            projected_proofs_per_hour=MUCH,
            usd_per_hour=MUCH,
            observed_at=THEN,
        ),
        spend=SpendStatus(fleet_usd_today=MUCH, model_tokens_today=MANY),
        open_alerts=MANY,
        conditions=conditions,
    )


def test_the_largest_report_is_below_32_kilobytes_in_any_script() -> None:
    for letter in ("a", "ä", "漢", "🦆"):
        wire = the_largest(letter * 40_000).to_merge_patch()

        written = json.dumps(wire, ensure_ascii=False).encode()

        assert len(written) < MOST_BYTES
