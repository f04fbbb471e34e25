"""A report as numbers: the same figures as in the status that it writes, beside what the spec allows."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from fleetagent.adapters.metrics import catalogue
from fleetagent.adapters.metrics.catalogue import Family
from fleetagent.domain.fleet import LIVE, Fleet, FleetUnknown
from fleetagent.domain.observation import Observation
from fleetagent.domain.resource import Condition, FleetAgentSpec, FleetAgentStatus, Mode

Figure = float | int | Decimal | None
TRUTH: Final[Mapping[str, float]] = {"True": 1.0, "False": 0.0}


def figures(
    spec: FleetAgentSpec, status: FleetAgentStatus, seen: Observation | None, *, wakes: int, waiting: int
) -> Iterator[tuple[Family, Figure]]:
    """All that has one value for an agent; None where there is none now.

    Wakes and waiting actions are counted by the caller: the status shows the first of them only.
    """
    budget, fleet, session, spend, run = spec.budget, status.fleet, status.session, status.spend, status.last_run
    yield catalogue.TARGET, spec.target.proofs_per_hour
    yield catalogue.EFFECTIVE_TARGET, seen.target.proofs_per_hour if seen is not None and seen.target else None
    yield catalogue.RATE, fleet.proofs_per_hour if fleet else None
    yield catalogue.PROJECTED, fleet.projected_proofs_per_hour if fleet else None
    yield catalogue.OBSERVED, _seconds(fleet.observed_at) if fleet else None
    yield catalogue.USD_PER_HOUR, fleet.usd_per_hour if fleet else None
    yield catalogue.MOST_MACHINES, spec.limits.max_instances
    yield catalogue.BUDGET_PER_HOUR, budget.fleet_usd_per_hour
    yield catalogue.USD_TODAY, spend.fleet_usd_today if spend else None
    yield catalogue.BUDGET_PER_DAY, budget.fleet_usd_per_day
    yield catalogue.TOKENS_TODAY, spend.model_tokens_today if spend else None
    yield catalogue.BUDGET_TOKENS, budget.model_tokens_per_day
    yield catalogue.CONTEXT, session.context_tokens if session else None
    yield catalogue.NEXT_PROMPT, session.next_prompt_tokens if session else None
    yield catalogue.CONTEXT_BUDGET, spec.context.token_budget
    yield catalogue.WAKES, wakes
    yield catalogue.WAITING, waiting
    yield catalogue.ALERTS, status.open_alerts
    yield catalogue.LAST_RUN_ID, status.last_run_id
    yield catalogue.LAST_RUN, _seconds(run.started_at) if run else None
    yield catalogue.NEXT_RUN, _seconds(status.next_run_at)
    yield catalogue.INTERVAL, _interval_seconds(spec)


def _interval_seconds(spec: FleetAgentSpec) -> float | None:
    every = spec.schedule.every
    return None if every is None or spec.mode is Mode.SUSPENDED else every.total_seconds()


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def machines(seen: Observation) -> dict[str, float]:
    """How many stand in each phase, as the ledger has them: also while the market cannot be read."""
    fleet: Fleet | FleetUnknown | None = seen.fleet
    if isinstance(fleet, FleetUnknown):
        fleet = fleet.last_known
    tally = Tally(i.phase for i in fleet.instances) if fleet is not None else Tally()
    return {phase.value: float(tally[phase]) for phase in sorted(LIVE) if tally[phase]}


def truths(conditions: Iterable[Condition]) -> dict[str, float]:
    """Each condition: 1 True, 0 False, -1 Unknown."""
    return {c.type: TRUTH.get(c.status, -1.0) for c in conditions}
