"""plan_capacity: code does the arithmetic, the model decides."""

from decimal import Decimal

from fleetagent.agent.desk import FROM_STRANGERS, Desk
from fleetagent.domain.arrival import minutes_left, minutes_to_prove
from fleetagent.domain.capacity import usd_per_proof
from fleetagent.domain.facts import MODEL, Facts, Launch
from fleetagent.domain.fleet import Fleet, Instance, Offer, Phase
from fleetagent.domain.guardrails import no_room
from fleetagent.domain.model import JsonObject
from fleetagent.domain.money import dollars, hours_to_midnight, usd_per_hour_left
from fleetagent.domain.plan import Plan, Step, plan_of
from fleetagent.domain.rates import with_history
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
    waiting = fleet.launches_waiting if isinstance(fleet, Fleet) else ()
    left_out = starting | set(desk.pulse.hosts_excluded) | {w.offer.machine_id for w in waiting if w.offer}
    denied = desk.pulse.offers_denied
    offers = tuple(o for o in offers if o.machine_id not in left_out and o.offer_id not in denied)
    return [with_history(o, desk.pulse.host_rates, desk.pulse.kind_rates) for o in offers]


async def planned(desk: Desk, by: str) -> Plan:
    """The plan on fresh facts; its offers may be named from now on."""
    await desk.catch_up()
    facts = await desk.facts(None, None)
    short = facts.target is not None and facts.capacity is not None and not facts.target.met_by(facts.capacity)
    offers = await offers_for(desk) if short and no_room(Launch("", "", by), facts) is None else []
    made = plan_of(facts, offers, by)
    desk.show(*(step.offer for step in made.launches))
    return made


async def plan(desk: Desk) -> JsonObject:
    """What is missing or too much, which machines would change that, and what it would cost."""
    made = await planned(desk, MODEL)
    seen, target, fleet = desk.seen, desk.seen.target, desk.seen.fleet
    cap = seen.capacity
    if cap is None or target is None or not isinstance(fleet, Fleet):
        return {"hold": True, "launch": [], "stop": [], "because": "fleet or demand is unknown: do nothing"}
    answer: JsonObject = {
        "target_proofs_per_hour": target.proofs_per_hour,
        "projected_proofs_per_hour": cap.projected_proofs_per_hour,
        "shortfall_proofs_per_hour": max(0.0, round(target.proofs_per_hour - cap.projected_proofs_per_hour, 1)),
        "hold": not made.launches and not made.stops,
        FROM_STRANGERS: ["gpu"],
        "launch": [_step(s, desk.offer_aliases[s.offer.offer_id]) for s in made.launches],
        "stop": [{"instance_id": i.instance_id, "alias": i.alias, "because": _because(i)} for i in made.stops],
        **_then(made, fleet),
    }
    if made.bound is not None:
        answer["bound_by"] = {"code": made.bound.code, "sentence": made.bound.sentence}
    if not target.met_by(cap):
        answer["left"] = _left(made.then)
        if not made.launches and made.bound is not None:
            answer["because"] = made.bound.sentence
    elif not made.stops:
        answer["because"] = f"on target; {cap.on_the_way} on the way are counted"
    return answer


def _then(made: Plan, fleet: Fleet) -> JsonObject:
    """Where the fleet stands when the plan is carried out, what it costs then, and when all of it proves."""
    then = made.then
    if then.capacity is None or not isinstance(then.fleet, Fleet):
        return {}
    usd = then.fleet.committed_usd_per_hour - sum((i.usd_per_hour for i in made.stops), Decimal(0))
    proofs = then.capacity.projected_proofs_per_hour
    today = max(Decimal(0), then.usd_spent_today) + usd * hours_to_midnight(then.now)
    told: JsonObject = {
        "then_projected_proofs_per_hour": round(proofs),
        "then_usd_per_hour": dollars(usd),
        "then_usd_today": dollars(today),
    }
    if proofs > 0:
        told["then_usd_per_proof"] = f"{usd / Decimal(str(proofs)):.4f}"
    coming = [minutes_left(i, then.now) for i in fleet.instances]
    coming += [minutes_to_prove(s.offer.download_mbps) for s in made.launches]
    if late := max(coming, default=0.0):
        told["then_all_prove_in_minutes"] = round(late)
    return told


def _left(then: Facts) -> JsonObject:
    """What the limits leave after the plan."""
    limits, budget = then.spec.limits, then.spec.budget
    if then.capacity is None or not isinstance(then.fleet, Fleet):
        return {}
    usd = usd_per_hour_left(budget, then.fleet.committed_usd_per_hour, then.usd_spent_today, then.now)
    return {
        "launches_in_this_run": max(0, limits.launches_per_run - then.launches_this_run),
        "launches_in_this_hour": max(0, limits.launches_per_hour - then.launches_last_hour),
        "instances": max(0, limits.max_instances - then.capacity.instances),
        "usd_per_hour": dollars(max(Decimal(0), usd)),
    }


def _because(instance: Instance) -> str:
    return "does not prove yet" if instance.phase is not Phase.PROVING else "the dearest proofs of those not needed"


def _step(step: Step, alias: str) -> JsonObject:
    return {
        "offer_id": step.offer.offer_id,
        "alias": alias,
        "gpu": f"{step.offer.num_gpus}x {neutral(step.offer.gpu_name, 40)}",
        "expected_proofs_per_hour": round(step.expected_rate),
        "usd_per_hour": f"{step.offer.usd_per_hour:.3f}",
        "usd_per_proof": f"{usd_per_proof(step.offer):.4f}",
        "proves_in_minutes": round(minutes_to_prove(step.offer.download_mbps)),
    }
