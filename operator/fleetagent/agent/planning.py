"""plan_capacity: code does the arithmetic, the model decides."""

from dataclasses import replace
from decimal import Decimal

from fleetagent.agent.desk import Desk
from fleetagent.domain.capacity import CHANCE, Step, capacity, choose, usd_per_proof
from fleetagent.domain.facts import Facts, Stop
from fleetagent.domain.fleet import Fleet, Instance, Offer, Phase
from fleetagent.domain.guardrails import check_as_in_act
from fleetagent.domain.model import JsonObject
from fleetagent.domain.money import dollars, hours_to_midnight
from fleetagent.domain.records import Pulse
from fleetagent.domain.text import neutral


async def offers_for(desk: Desk) -> list[Offer]:
    """Acceptable offers that were not gone lately, on hosts that did not fail us and where none of ours is starting."""
    if desk.market is None:
        return []
    vast = desk.subject.spec.fleet.vast
    offers = await desk.market.offers(vast.offers, vast.instance.disk_gb)
    fleet = desk.seen.fleet
    starting = (
        {i.machine_id for i in fleet.instances if i.phase is not Phase.PROVING} if isinstance(fleet, Fleet) else set()
    )
    left_out = starting | set(desk.pulse.hosts_excluded)
    denied = desk.pulse.offers_denied
    return [with_history(desk.pulse, o) for o in offers if o.machine_id not in left_out and o.offer_id not in denied]


def with_history(pulse: Pulse, offer: Offer) -> Offer:
    """The offer, and what this very host made for us before."""
    return replace(offer, measured_rate=pulse.host_rates.get((offer.machine_id, offer.gpu_name, offer.num_gpus)))


async def plan(desk: Desk) -> JsonObject:
    """What is missing or too much, which machines would change that, and what it would cost."""
    facts = await desk.facts(None, None)
    cap, target = facts.capacity, facts.target
    if cap is None or target is None or not isinstance(facts.fleet, Fleet):
        return {"hold": True, "launch": [], "stop": [], "because": "fleet or demand is unknown: do nothing"}
    met = target.met_by(cap)
    shortfall = max(0.0, round(target.proofs_per_hour - cap.projected_proofs_per_hour, 1))
    steps = () if met else await _launches(desk, facts, shortfall)
    stops = _stops(facts) if met else ()
    desk.offers_shown.update({s.offer.offer_id: s.offer for s in steps})
    usd = facts.fleet.usd_per_hour + sum((s.offer.usd_per_hour for s in steps), Decimal(0))
    then = cap.projected_proofs_per_hour + sum(s.expected_rate * CHANCE[Phase.REQUESTED] for s in steps)
    answer: JsonObject = {
        "target_proofs_per_hour": target.proofs_per_hour,
        "projected_proofs_per_hour": cap.projected_proofs_per_hour,
        "shortfall_proofs_per_hour": shortfall,
        "hold": not steps and not stops,
        "launch": [_step(s) for s in steps],
        "stop": [{"instance_id": i.instance_id, "because": _because(i)} for i in stops],
        "then_projected_proofs_per_hour": round(then - sum(capacity(i) for i in stops)),
        "then_usd_per_hour": dollars(usd - sum((i.usd_per_hour for i in stops), Decimal(0))),
    }
    if not met and not steps:
        answer["because"] = _why_nothing(facts)
    elif met and not stops:
        answer["because"] = f"on target; {cap.on_the_way} on the way are counted"
    return answer


async def _launches(desk: Desk, facts: Facts, shortfall: float) -> tuple[Step, ...]:
    limits, budget = facts.spec.limits, facts.spec.budget
    cap = facts.capacity
    if cap is None or not isinstance(facts.fleet, Fleet):
        return ()
    at_most = min(
        limits.launches_per_run - facts.launches_this_run,
        limits.launches_per_hour - facts.launches_last_hour,
        limits.max_instances - cap.instances,
    )
    offers = await offers_for(desk) if at_most > 0 else []
    if budget.usd_per_proof is not None:
        offers = [o for o in offers if usd_per_proof(o) <= budget.usd_per_proof]
    return choose(
        offers,
        shortfall=shortfall,
        at_least=max(0, limits.min_instances - cap.lasting),
        at_most=max(0, at_most),
        usd_per_hour_left=_usd_per_hour_left(facts, facts.fleet),
    )


def _usd_per_hour_left(facts: Facts, fleet: Fleet) -> Decimal:
    """What the hourly cap leaves, and the daily one if everything ran until midnight."""
    budget, left = facts.spec.budget, facts.spec.budget.fleet_usd_per_hour
    if budget.fleet_usd_per_day is not None:
        left = min(left, (budget.fleet_usd_per_day - facts.usd_spent_today) / hours_to_midnight(facts.now))
    return left - fleet.usd_per_hour


def _stops(facts: Facts) -> tuple[Instance, ...]:
    """What could go and leave the whole target: machines that do not prove first, then the dearest proofs."""
    cap, target = facts.capacity, facts.target
    if cap is None or target is None or not isinstance(facts.fleet, Fleet):
        return ()
    left, count = cap.projected_proofs_per_hour, cap.lasting
    chosen: list[Instance] = []
    for instance in sorted(facts.fleet.instances, key=_first_to_go):
        fits = left - capacity(instance) >= target.proofs_per_hour and count > target.min_instances
        room = len(chosen) < facts.spec.limits.stops_per_run - facts.stops_this_run
        if fits and room and check_as_in_act(Stop(instance.instance_id, ""), facts) is None:
            chosen.append(instance)
            left, count = left - capacity(instance), count - 1
    return tuple(chosen)


def _first_to_go(instance: Instance) -> tuple[bool, Decimal]:
    rate = Decimal(str(max(capacity(instance), 0.001)))
    return instance.phase is Phase.PROVING, -(instance.usd_per_hour / rate)


def _because(instance: Instance) -> str:
    return "does not prove yet" if instance.phase is not Phase.PROVING else "the dearest proofs of those not needed"


def _step(step: Step) -> JsonObject:
    return {
        "offer_id": step.offer.offer_id,
        "gpu": f"{step.offer.num_gpus}x {neutral(step.offer.gpu_name, 40)}",
        "expected_proofs_per_hour": round(step.expected_rate),
        "usd_per_hour": f"{step.offer.usd_per_hour:.3f}",
    }


def _why_nothing(facts: Facts) -> str:
    limits = facts.spec.limits
    if facts.launches_this_run >= limits.launches_per_run:
        return f"this run has made its {limits.launches_per_run} launches; the next run goes on"
    if facts.launches_last_hour >= limits.launches_per_hour:
        return f"{limits.launches_per_hour} launches within the last hour are the limit"
    if facts.capacity is not None and facts.capacity.instances >= limits.max_instances:
        return f"{limits.max_instances} instances are the limit"
    return "no acceptable offer fits filter and budget now"
