"""How long the guardrails take for a large fleet: the checks that ask every rule, the filter, the plan."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bench.page import met

from fleetagent.domain.facts import Facts, Launch, Stop
from fleetagent.domain.fleet import Instance, Offer, Phase
from fleetagent.domain.guardrails import check
from fleetagent.domain.offers import why_not
from fleetagent.domain.plan import plan_of
from support.fleets import NOW, an_instance, an_offer, facts

MACHINES, OFFERS = 500, 3_000
REPEATED, BATCH = 200, 5
GOAL_MS = 1.0
ON_THE_WAY = 20

ROOMY: dict[str, Any] = {
    "target": {"proofsPerHour": 60_000},
    "budget": {"fleetUsdPerHour": "1000.00", "fleetUsdPerDay": "24000.00", "usdPerProof": "0.01"},
    "limits": {"maxInstances": 1000, "launchesPerRun": 20, "launchesPerHour": 100, "stopsPerRun": 20},
    "fleet": {"vast": {"offers": {"gpuNames": ["RTX 5090", "RTX 4090"], "maxUsdPerHour": "0.90"}}},
}


def rows() -> list[list[str]]:
    """Each figure beside the floor: one pass over the same machines, or offers, that reads one field."""
    fleet, offers = a_large_fleet(), many_offers()
    shown = {o.offer_id: o for o in offers}
    below = facts(*fleet, spec=ROOMY, offers_shown=shown, offer_now=offers[-1])
    launch = Launch(offers[-1].offer_id, "one more")
    above = facts(*fleet, spec={**ROOMY, "target": {"proofsPerHour": 1_000}})
    proving = [i for i in fleet if i.phase is Phase.PROVING]
    stop = Stop(str(proving[-1].provider_id), "one less")
    # None of those on their way is old enough to go: the rule that prefers them looks at every one, and lets it pass.
    if refusal := check(launch, below) or check(stop, above):
        raise RuntimeError(f"not every rule is asked: {refusal}")
    wanted = below.spec.fleet.vast.offers
    no_fleet, no_offers = _ms(lambda: [i.phase for i in fleet]), _ms(lambda: [o.usd_per_hour for o in offers])
    return [
        _row(
            "check of a launch that every rule lets pass", _ms(lambda: check(launch, _anew(below))), no_fleet, GOAL_MS
        ),
        _row("check of a stop that every rule lets pass", _ms(lambda: check(stop, _anew(above))), no_fleet, GOAL_MS),
        _row(f"the spec's filter over {OFFERS:,} offers", _ms(lambda: [why_not(o, wanted) for o in offers]), no_offers),
        _row(f"a plan of 20 launches out of {OFFERS:,} offers", _ms(lambda: plan_of(below, offers), 10), no_offers),
        _row("a plan of 20 stops", _ms(lambda: plan_of(above, ()), 10), no_fleet),
    ]


def _anew(known: Facts) -> Facts:
    """As they come fresh from a look: the fleet's capacity is not counted yet."""
    return replace(known)


def a_large_fleet() -> tuple[Instance, ...]:
    """Most prove, some are on their way and young."""
    young: dict[str, Any] = {
        "requested_at": NOW - timedelta(minutes=3),
        "phase": Phase.LOADING,
        "usd_per_hour": Decimal("0.47"),
    }
    proving = [an_instance(str(9000 + n), measured_rate=100.0 + n % 7) for n in range(MACHINES - ON_THE_WAY)]
    return (*(an_instance(str(8000 + n), **young) for n in range(ON_THE_WAY)), *proving)


def many_offers() -> tuple[Offer, ...]:
    """All of them acceptable, so that no rule ends early."""
    return tuple(
        an_offer(str(100_000 + n), usd_per_hour=Decimal("0.40") + Decimal(n % 400) / 1000) for n in range(OFFERS)
    )


def _ms(work: Callable[[], object], repeated: int = REPEATED) -> float:
    """CPU, the median: a sample is a batch, as one call is short."""
    taken = []
    for _ in range(repeated):
        began = time.process_time()
        for _ in range(BATCH):
            work()
        taken.append(time.process_time() - began)
    return 1000 * statistics.median(taken) / BATCH


def _row(what: str, ms: float, floor_ms: float, goal_ms: float | None = None) -> list[str]:
    goal = [f"≤ {goal_ms:g} ms", met(ms <= goal_ms)] if goal_ms is not None else ["", ""]
    return [what, f"{ms:.3f} ms", f"{ms / floor_ms:.0f}", *goal]
