"""Rules for stops: what proves stays while something else can go."""

from collections.abc import Callable
from decimal import Decimal

from fleetagent.domain.capacity import capacity
from fleetagent.domain.facts import Facts, Refusal, Stop
from fleetagent.domain.fleet import Fleet, Instance, Phase
from fleetagent.domain.guardrails.common import paused
from fleetagent.domain.resource import Direction

StopRule = Callable[[Stop, Facts], Refusal | None]


def paused_down(_: Stop, facts: Facts) -> Refusal | None:
    """Refuse stops while a pause covers Down."""
    return paused(Direction.DOWN, facts)


def not_ours(stop: Stop, facts: Facts) -> Refusal | None:
    """Refuse what the ledger does not know as ours: a foreign machine is never touched."""
    if _named(stop, facts) is not None:
        return None
    return Refusal("UnknownInstance", f"{stop.instance_id[:60]} is no live instance of this agent")


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
    instance, cap, target = _named(stop, facts), facts.capacity, facts.target
    if instance is None or cap is None or target is None or capacity(instance) <= 0:
        return None
    left = Decimal(str(round(cap.projected_proofs_per_hour - capacity(instance), 1)))
    if left >= target.hold_from:
        return None
    return Refusal("BelowTarget", f"{left} proofs/h would be left; the target is held from {target.hold_from:.1f} up")


def idle_could_go(stop: Stop, facts: Facts) -> Refusal | None:
    """Refuse to stop a proving machine when an idle one could go instead: proofs in work cost penalties."""
    instance = _named(stop, facts)
    if instance is None or instance.phase is not Phase.PROVING or not isinstance(facts.fleet, Fleet):
        return None
    rules = (not_seen_yet, too_young, below_target)
    for other in facts.fleet.instances:
        idle = other.phase not in {Phase.PROVING, Phase.STOPPING}
        if idle and not any(rule(Stop(other.instance_id, ""), facts) for rule in rules):
            return Refusal("IdleCouldGo", f"{other.instance_id} does not prove yet; stop it instead")
    return None


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
