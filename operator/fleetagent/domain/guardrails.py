"""Ordered rules: action and facts → refusal or nothing. The first that refuses wins.

Each is pure and is checked on facts read just before the effect. No text that a host or a model wrote is read here.
"""

from collections.abc import Callable
from decimal import Decimal
from itertools import chain

from fleetagent.domain.capacity import capacity, offer_rate, usd_per_proof
from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.facts import Facts, Launch, Refusal, Stop
from fleetagent.domain.fleet import Fleet, FleetUnknown, Instance, Phase
from fleetagent.domain.money import dollars, hours_to_midnight
from fleetagent.domain.offers import why_not
from fleetagent.domain.resource import Direction, Mode

LaunchRule = Callable[[Launch, Facts], Refusal | None]
StopRule = Callable[[Stop, Facts], Refusal | None]
AnyRule = Callable[[Launch | Stop, Facts], Refusal | None]


# --- rules for every action -----------------------------------------------------------------------------------------


def installation_stopped(_: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse while the whole installation is stopped, or nobody can say whether it is."""
    if facts.installation_stop is None:
        return None
    return Refusal("InstallationStopped", f"nothing is launched or stopped now: {facts.installation_stop}")


def suspended(_: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse everything while the agent is suspended."""
    return Refusal("Suspended", "the agent is suspended") if facts.spec.mode is Mode.SUSPENDED else None


def mode_holds_back(_: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse every effect in every mode but Act; asked last, so that the other rules have had their say."""
    match facts.spec.mode:
        case Mode.DRY_RUN:
            return Refusal("DryRun", "mode DryRun: this would have been done; nothing is done")
        case Mode.APPROVE:
            return Refusal(
                "NeedsApproval", "mode Approve: a person must approve it, which this version cannot take yet"
            )
        case _:
            return None


def fleet_unknown(_: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse while the fleet cannot be read in full: unknown is never zero."""
    if isinstance(facts.fleet, FleetUnknown):
        return Refusal("FleetUnknown", f"the fleet is not known now: {facts.fleet.because}")
    return None


def demand_unknown(_: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse while demand is unknown: neither launch nor stop."""
    if isinstance(facts.demand, DemandUnknown):
        return Refusal("DemandUnknown", f"the demand is not known now: {facts.demand.because}")
    return None


# --- launches -------------------------------------------------------------------------------------------------------


def paused_up(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse launches while a pause covers Up."""
    return _paused(Direction.UP, facts)


def workers_cannot_report(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse launches whose machines would have nowhere to report to."""
    if facts.workers_can_report:
        return None
    return Refusal("NoWorkerURL", "FLEETAGENT_WORKER_URL is not set: a new machine could not report its rate")


def offer_not_seen(launch: Launch, facts: Facts) -> Refusal | None:
    """Refuse an offer that this run was not shown."""
    if launch.offer_id in facts.offers_shown:
        return None
    return Refusal(
        "OfferNotSeen", f"offer {launch.offer_id[:40]} was not shown in this run; call get_offers or plan_capacity"
    )


def offer_gone(launch: Launch, facts: Facts) -> Refusal | None:
    """Refuse an offer that is not there any more."""
    if facts.offer_now is not None:
        return None
    return Refusal("OfferGone", f"offer {launch.offer_id[:40]} is gone; look for another")


def offer_dearer(launch: Launch, facts: Facts) -> Refusal | None:
    """Refuse an offer whose price rose since it was shown (a cent per hour is noise)."""
    shown, now = facts.offers_shown.get(launch.offer_id), facts.offer_now
    if shown is None or now is None or now.usd_per_hour <= shown.usd_per_hour + Decimal("0.01"):
        return None
    return Refusal(
        "OfferDearer", f"the offer costs {now.usd_per_hour:.4f} USD/h now, {shown.usd_per_hour:.4f} when it was shown"
    )


def offer_outside_filter(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse what the spec's filter leaves out, whatever the market's search says."""
    because = why_not(facts.offer_now, facts.spec.fleet.vast.offers) if facts.offer_now else None
    return Refusal("OfferOutsideFilter", f"the offer is outside the filter: {because}") if because else None


def host_excluded(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse a host that failed us lately."""
    until = facts.hosts_excluded.get(facts.offer_now.machine_id) if facts.offer_now else None
    if until is None or until <= facts.now:
        return None
    return Refusal("HostExcluded", f"this host failed lately and is left out until {until:%H:%M} UTC")


def host_in_use(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse a second machine on a host where one of ours does not prove yet: an offer bought twice never starts."""
    known = facts.fleet.instances if isinstance(facts.fleet, Fleet) else ()
    offer = facts.offer_now
    twin = next((i for i in known if offer and i.machine_id == offer.machine_id and i.phase is not Phase.PROVING), None)
    return Refusal("HostInUse", f"{twin.instance_id} is on its way on the same host") if twin else None


def on_target_already(_: Launch, facts: Facts) -> Refusal | None:
    """Hold: refuse while what proves and what is on its way suffice; one more would only cost."""
    cap, target = facts.capacity, facts.target
    if cap is None or target is None:
        return None
    if not target.met_by(cap):
        return None
    return Refusal(
        "OnTarget",
        f"projected {cap.projected_proofs_per_hour:g} proofs/h reach the target of {target.proofs_per_hour:g} "
        f"(hold from {target.hold_from:.1f}); {cap.on_the_way} on the way are counted",
    )


def too_many_instances(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse what would exceed the number of machines."""
    cap, most = facts.capacity, facts.spec.limits.max_instances
    if cap is None or cap.instances < most:
        return None
    return Refusal("TooManyInstances", f"{cap.instances} of at most {most} instances are there")


def launches_per_run(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse more launches than one run may make."""
    most = facts.spec.limits.launches_per_run
    if facts.launches_this_run < most:
        return None
    return Refusal("LaunchesPerRun", f"this run has launched {facts.launches_this_run} of at most {most}")


def launches_per_hour(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse more launches than one hour may see."""
    most = facts.spec.limits.launches_per_hour
    if facts.launches_last_hour < most:
        return None
    return Refusal(
        "LaunchesPerHour", f"{facts.launches_last_hour} of at most {most} were launched within the last hour"
    )


def over_hourly_budget(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse what would push the fleet's hourly bill past the budget."""
    if not isinstance(facts.fleet, Fleet) or facts.offer_now is None:
        return None
    bill, budget = facts.fleet.usd_per_hour + facts.offer_now.usd_per_hour, facts.spec.budget.fleet_usd_per_hour
    if bill <= budget:
        return None
    return Refusal("OverHourlyBudget", f"{bill:.4f} USD/h would pass the budget of {dollars(budget)} USD/h")


def over_daily_budget(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse what would push the UTC day's bill past its budget, if everything ran until midnight."""
    budget = facts.spec.budget.fleet_usd_per_day
    if budget is None or not isinstance(facts.fleet, Fleet) or facts.offer_now is None:
        return None
    per_hour = facts.fleet.usd_per_hour + facts.offer_now.usd_per_hour
    bill = facts.usd_spent_today + per_hour * hours_to_midnight(facts.now)
    if bill <= budget:
        return None
    return Refusal("OverDailyBudget", f"today's bill would come to {dollars(bill)} of {dollars(budget)} USD")


def too_dear_per_proof(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse an offer whose expected proofs would cost more than a proof may."""
    most, offer = facts.spec.budget.usd_per_proof, facts.offer_now
    if most is None or offer is None:
        return None
    each = usd_per_proof(offer)
    if each <= most:
        return None
    usd = f"{each:.4f}" if each.is_finite() else "an unlimited sum of"
    return Refusal(
        "TooDearPerProof",
        f"{offer_rate(offer):g} expected proofs/h would cost {usd} USD each; at most {most:f} is allowed",
    )


# --- stops ----------------------------------------------------------------------------------------------------------


def paused_down(_: Stop, facts: Facts) -> Refusal | None:
    """Refuse stops while a pause covers Down."""
    return _paused(Direction.DOWN, facts)


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


def _paused(direction: Direction, facts: Facts) -> Refusal | None:
    pause = facts.spec.pause
    if pause is None or not pause.refuses(direction, facts.now):
        return None
    return Refusal("Paused", f"paused until {pause.until:%Y-%m-%d %H:%M} UTC: {pause.reason or 'no reason given'}")


FIRST: tuple[AnyRule, ...] = (installation_stopped, suspended, fleet_unknown, demand_unknown)

LAST: tuple[AnyRule, ...] = (mode_holds_back,)

LAUNCH_RULES: tuple[LaunchRule, ...] = (
    paused_up,
    workers_cannot_report,
    on_target_already,
    too_many_instances,
    launches_per_run,
    launches_per_hour,
    offer_not_seen,
    offer_gone,
    offer_dearer,
    offer_outside_filter,
    host_excluded,
    host_in_use,
    over_hourly_budget,
    over_daily_budget,
    too_dear_per_proof,
)

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


def check(action: Launch | Stop, facts: Facts) -> Refusal | None:
    """The first refusal, or None when the action may happen now."""
    return check_as_in_act(action, facts) or next(filter(None, (r(action, facts) for r in LAST)), None)


def check_as_in_act(action: Launch | Stop, facts: Facts) -> Refusal | None:
    """What mode Act would refuse: a plan is the same in a mode that holds every effect back."""
    if isinstance(action, Launch):
        refusals = chain((r(action, facts) for r in FIRST), (r(action, facts) for r in LAUNCH_RULES))
    else:
        refusals = chain((r(action, facts) for r in FIRST), (r(action, facts) for r in STOP_RULES))
    return next(filter(None, refusals), None)
