"""Rules for stops: what proves stays while something else can go."""

from collections.abc import Callable
from decimal import Decimal

from fleetagent.domain.capacity import capacity
from fleetagent.domain.facts import Facts, Refusal, Stop
from fleetagent.domain.fleet import Fleet, Instance, Phase
from fleetagent.domain.guardrails.common import paused
from fleetagent.domain.resource import Direction
from fleetagent.domain.text import neutral

StopRule = Callable[[Stop, Facts], Refusal | None]


def paused_down(_: Stop, facts: Facts) -> Refusal | None:
    """Refuse stops while a pause covers Down."""
    return paused(Direction.DOWN, facts)


def not_ours(stop: Stop, facts: Facts) -> Refusal | None:
    """Refuse what the ledger does not know as ours: a foreign machine is never touched."""
    if _named(stop, facts) is not None:
        return None
    return Refusal("UnknownInstance", f"{neutral(stop.instance_id, 60)} is no live instance of this agent")


def stopping_already(stop: Stop, facts: Facts) -> Refusal | None:
    """Refuse to stop twice."""
    instance = _named(stop, facts)
    if instance is None or instance.phase is not Phase.STOPPING:
        return None
    return Refusal("SameIntentInFlight", f"{instance.instance_id} is being stopped already")


def not_seen_yet(stop: Stop, facts: Facts) -> Refusal | None:
    """Refuse to stop a machine that the market has not shown yet: settling its intent comes first."""
    instance = _named(stop, facts)
    if instance is None or instance.provider_id is not None:
        return None
    return Refusal("NotSeenYet", f"{instance.label} has not been seen on the market yet; it is being settled")


def stops_per_run(_: Stop, facts: Facts) -> Refusal | None:
    """Refuse more stops than one run may make."""
    most = facts.spec.limits.stops_per_run
    if facts.stops_this_run < most:
        return None
    return Refusal("StopsPerRun", f"this run has stopped {facts.stops_this_run} of at most {most}")


def too_young(stop: Stop, facts: Facts) -> Refusal | None:
    """Refuse to stop a machine before it had time to pay for its start."""
    instance, least = _named(stop, facts), facts.spec.limits.min_instance_age
    if instance is None or facts.now - instance.requested_at >= least:
        return None
    age = int((facts.now - instance.requested_at).total_seconds() // 60)
    return Refusal(
        "TooYoung", f"{instance.instance_id} is {age} min old; it must be {int(least.total_seconds() // 60)}"
    )


def below_floor(_: Stop, facts: Facts) -> Refusal | None:
    """Refuse to go below the least number of machines."""
    cap, least = facts.capacity, facts.spec.limits.min_instances
    if cap is None or cap.lasting > least:
        return None
    return Refusal("BelowMinInstances", f"{cap.lasting} instances are left; at least {least} must stay")


def below_target(stop: Stop, facts: Facts) -> Refusal | None:
    """Refuse a stop after which the fleet would fall below the target's tolerance."""
    instance, target = _named(stop, facts), facts.target
    left = _proofs_left(instance, facts) if instance is not None else None
    if left is None or target is None or left >= target.hold_from:
        return None
    return Refusal("BelowTarget", f"{left} proofs/h would be left; the target is held from {target.hold_from:.1f} up")


def idle_could_go(stop: Stop, facts: Facts) -> Refusal | None:
    """Refuse to stop a proving machine when an idle one could go instead: proofs in work cost penalties."""
    instance = _named(stop, facts)
    if instance is None or instance.phase is not Phase.PROVING or not isinstance(facts.fleet, Fleet):
        return None
    idle = (i for i in facts.fleet.instances if i.phase not in {Phase.PROVING, Phase.STOPPING})
    other = next((i for i in idle if _could_go(i, facts)), None)
    return Refusal("IdleCouldGo", f"{other.instance_id} does not prove yet; stop it instead") if other else None


def _could_go(instance: Instance, facts: Facts) -> bool:
    """What `not_seen_yet`, `too_young` and `below_target` ask, of an instance that is at hand."""
    old_enough = facts.now - instance.requested_at >= facts.spec.limits.min_instance_age
    left = _proofs_left(instance, facts)
    enough = left is None or facts.target is None or left >= facts.target.hold_from
    return instance.provider_id is not None and old_enough and enough


def _proofs_left(instance: Instance, facts: Facts) -> Decimal | None:
    """Proofs per hour without this machine; None when it makes none, so that nothing would be lost."""
    makes = capacity(instance)
    if facts.capacity is None or makes <= 0:
        return None
    return Decimal(str(round(facts.capacity.projected_proofs_per_hour - makes, 1)))


def _named(stop: Stop, facts: Facts) -> Instance | None:
    return facts.fleet.named(stop.instance_id) if isinstance(facts.fleet, Fleet) else None


STOP_RULES: tuple[StopRule, ...] = (
    paused_down,
    not_ours,
    stopping_already,
    not_seen_yet,
    stops_per_run,
    too_young,
    below_floor,
    below_target,
    idle_could_go,
)
