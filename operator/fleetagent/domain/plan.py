"""What to launch or to stop, by arithmetic alone, each step checked by the guardrails on the facts that it will find.

So a plan passes as it stands: the second launch is judged with the first one on its way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetagent.domain.capacity import CHANCE, capacity, offer_rate, usd_per_proof
from fleetagent.domain.facts import MODEL, Facts, Launch, Refusal, Stop
from fleetagent.domain.fleet import Fleet, Instance, Offer, Phase
from fleetagent.domain.guardrails import check_as_in_act, no_room
from fleetagent.domain.money import is_price, usd_per_hour_left

ARRIVES = CHANCE[Phase.REQUESTED]
NO_OFFER = Refusal("NoOffer", "no acceptable offer fits filter and budget now")


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of a plan."""

    offer: Offer
    expected_rate: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Launches or stops, in order; never both. `then` are the facts when all of it is done."""

    launches: tuple[Step, ...]
    stops: tuple[Instance, ...]
    then: Facts
    bound: Refusal | None = None
    """What keeps it from reaching the target; None when it does, or when nothing is to be done."""


def plan_of(facts: Facts, offers: Sequence[Offer], by: str = MODEL) -> Plan:
    """The launches that close the gap for the least money per proof, or the stops that leave the whole target.

    Nothing at all while fleet or demand is unknown, or on target.
    """
    if facts.capacity is None or facts.target is None:
        return Plan((), (), facts)
    if facts.target.met_by(facts.capacity):
        return _stops(facts, by)
    return _launches(facts, offers, by)


def _launches(facts: Facts, offers: Sequence[Offer], by: str) -> Plan:
    left = [Step(o, offer_rate(o)) for o in offers if is_price(o.usd_per_hour)]
    most, least = facts.spec.budget.usd_per_proof, facts.spec.fleet.vast.instance.min_proofs_per_hour
    left = [s for s in left if s.expected_rate > 0 and Decimal(str(s.expected_rate)) >= least]
    left = [s for s in left if most is None or usd_per_proof(s.offer) <= most]
    left.sort(key=lambda s: (usd_per_proof(s.offer), s.offer.offer_id))
    chosen: list[Step] = []
    bound: Refusal | None = None
    while not _met(facts):
        if (bound := no_room(Launch("", "", by), facts)) is not None:
            break
        if (step := _next(left, facts)) is None:
            bound = NO_OFFER
            break
        left.remove(step)
        offer = step.offer
        would = replace(facts, offer_now=offer, offers_shown={**facts.offers_shown, offer.offer_id: offer})
        if check_as_in_act(Launch(offer.offer_id, "", by), would) is None:
            chosen.append(step)
            facts = _after_launch(would, step)
    return Plan(tuple(chosen), (), facts, bound)


def _next(left: Sequence[Step], facts: Facts) -> Step | None:
    """The cheapest proofs; but the cheapest machine that suffices, when one does: a last one far too big only costs.

    Where so few machines may still come that only large ones could close the gap, the small ones are passed over.
    """
    cap, target = facts.capacity, facts.target
    if cap is None or target is None or not isinstance(facts.fleet, Fleet):
        return None
    affordable_usd = usd_per_hour_left(
        facts.spec.budget, facts.fleet.committed_usd_per_hour, facts.usd_spent_today, facts.now
    )
    affordable = [s for s in left if s.offer.usd_per_hour <= affordable_usd]
    gap = target.proofs_per_hour - cap.projected_proofs_per_hour
    enough = [s for s in affordable if s.expected_rate * ARRIVES >= gap]
    if enough:
        return min(enough, key=lambda s: s.offer.usd_per_hour)
    places = facts.spec.limits.max_instances - cap.instances
    large = [s for s in affordable if s.expected_rate * ARRIVES * places >= gap]
    return next(iter(large or affordable), None)


def _stops(facts: Facts, by: str) -> Plan:
    """Machines that do not prove first, then those with the dearest proofs."""
    chosen: list[Instance] = []
    worst = _at_worst(facts)
    known = worst.fleet.instances if isinstance(worst.fleet, Fleet) else ()
    for instance in sorted(known, key=_first_to_go):
        if not _is_spare(instance, worst):
            continue
        refusal = check_as_in_act(Stop(instance.instance_id, "", by), facts)
        if refusal is None:
            chosen.append(instance)
            facts = _after_stop(facts, instance)
            worst = _at_worst(facts)
        elif refusal.code == "StopsPerRun":
            return Plan((), tuple(chosen), facts, refusal)
    return Plan((), tuple(chosen), facts)


def _at_worst(facts: Facts) -> Facts:
    """As a stop has to reckon: of what waits for a person, no launch comes and every stop does."""
    if not isinstance(facts.fleet, Fleet) or not facts.fleet.waiting:
        return facts
    return replace(facts, fleet=facts.fleet.at_worst)


def _is_spare(instance: Instance, facts: Facts) -> bool:
    """Whether the whole target is met without it: within the tolerance would mean to launch again soon."""
    cap, target = facts.capacity, facts.target
    if cap is None or target is None or instance.phase is Phase.STOPPING:
        return False
    enough = round(cap.projected_proofs_per_hour - capacity(instance), 1) >= target.proofs_per_hour
    return enough and cap.lasting > target.min_instances


def _first_to_go(instance: Instance) -> tuple[bool, Decimal]:
    usd = instance.usd_per_hour if is_price(instance.usd_per_hour) else Decimal(0)
    return instance.phase is Phase.PROVING, -(usd / Decimal(str(max(capacity(instance), 0.001))))


def _met(facts: Facts) -> bool:
    return facts.capacity is not None and facts.target is not None and facts.target.met_by(facts.capacity)


def _after_launch(facts: Facts, step: Step) -> Facts:
    """The facts with this machine on its way, as the ledger will have it."""
    if not isinstance(facts.fleet, Fleet):
        return facts
    offer = step.offer
    new = Instance(
        label=f"planned {offer.offer_id}",
        provider_id=None,
        phase=Phase.REQUESTED,
        phase_since=facts.now,
        requested_at=facts.now,
        machine_id=offer.machine_id,
        gpu_name=offer.gpu_name,
        num_gpus=offer.num_gpus,
        cpu_ram_gb=offer.cpu_ram_gb,
        cpu_cores=offer.cpu_cores,
        usd_per_hour=offer.usd_per_hour,
        expected_rate=step.expected_rate,
    )
    return replace(
        facts,
        fleet=replace(facts.fleet, instances=(*facts.fleet.instances, new)),
        launches_this_run=facts.launches_this_run + 1,
        launches_last_hour=facts.launches_last_hour + 1,
    )


def _after_stop(facts: Facts, instance: Instance) -> Facts:
    """The facts with this machine on its way out; it bills until it is gone."""
    if not isinstance(facts.fleet, Fleet):
        return facts
    going = replace(instance, phase=Phase.STOPPING, phase_since=facts.now)
    instances = tuple(going if i is instance else i for i in facts.fleet.instances)
    return replace(facts, fleet=replace(facts.fleet, instances=instances), stops_this_run=facts.stops_this_run + 1)
