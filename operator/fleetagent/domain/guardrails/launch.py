"""Rules for launches: the last word on money is asked last."""

from collections.abc import Callable
from decimal import Decimal

from fleetagent.domain.capacity import offer_rate, usd_per_proof
from fleetagent.domain.facts import Facts, Launch, Refusal
from fleetagent.domain.fleet import Fleet, Phase
from fleetagent.domain.guardrails.common import paused
from fleetagent.domain.money import dollars, hours_to_midnight, is_price
from fleetagent.domain.offers import why_not
from fleetagent.domain.resource import Direction
from fleetagent.domain.text import neutral

LaunchRule = Callable[[Launch, Facts], Refusal | None]


def paused_up(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse launches while a pause covers Up."""
    return paused(Direction.UP, facts)


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
        "OfferNotSeen",
        f"offer {neutral(launch.offer_id, 40)} was not shown in this run; call get_offers or plan_capacity",
    )


def offer_gone(launch: Launch, facts: Facts) -> Refusal | None:
    """Refuse an offer that is not there any more."""
    if facts.offer_now is not None:
        return None
    return Refusal("OfferGone", f"offer {neutral(launch.offer_id, 40)} is gone; look for another")


def offer_implausible(launch: Launch, facts: Facts) -> Refusal | None:
    """Refuse an offer whose price, shown or now, is no price: not a number, without end, nothing, or beyond belief."""
    shown, now = facts.offers_shown.get(launch.offer_id), facts.offer_now
    if all(is_price(offer.usd_per_hour) for offer in (shown, now) if offer is not None):
        return None
    return Refusal("OfferImplausible", f"the price of offer {neutral(launch.offer_id, 40)} cannot be one")


def bill_unknown(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse to add to a bill that nobody can sum up: a machine's price, or today's spend, is not known."""
    if not isinstance(facts.fleet, Fleet):
        return None
    unpriced = next((i for i in facts.fleet.instances if not is_price(i.usd_per_hour)), None)
    if unpriced is not None:
        return Refusal("BillUnknown", f"the price of machine {neutral(unpriced.instance_id, 60)} is not known")
    if not all(is_price(w.usd_per_hour) for w in facts.fleet.launches_waiting):
        return Refusal("BillUnknown", "the price of a launch that waits for approval is not known")
    if not facts.usd_spent_today.is_finite():
        return Refusal("BillUnknown", "what was spent today is not known")
    return None


def offer_dearer(launch: Launch, facts: Facts) -> Refusal | None:
    """Refuse an offer whose price rose since it was shown (a cent per hour is noise)."""
    shown, now = facts.offers_shown.get(launch.offer_id), facts.offer_now
    if shown is None or now is None or now.usd_per_hour <= shown.usd_per_hour + Decimal("0.01"):
        return None
    return Refusal(
        "OfferDearer",
        f"the offer costs {now.usd_per_hour:.4f} USD/h now, {shown.usd_per_hour:.4f} when it was shown; "
        "look at offers again",
    )


def offer_outside_filter(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse what the spec's filter leaves out, whatever the market's search says."""
    vast = facts.spec.fleet.vast
    because = why_not(facts.offer_now, vast.offers, vast.instance.disk_gb) if facts.offer_now else None
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
    bill = facts.fleet.committed_usd_per_hour + facts.offer_now.usd_per_hour
    budget = facts.spec.budget.fleet_usd_per_hour
    if bill <= budget:
        return None
    return Refusal("OverHourlyBudget", f"{bill:.4f} USD/h would pass the budget of {dollars(budget)} USD/h")


def over_daily_budget(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse what would push the UTC day's bill past its budget, if everything ran until midnight."""
    budget = facts.spec.budget.fleet_usd_per_day
    if budget is None or not isinstance(facts.fleet, Fleet) or facts.offer_now is None:
        return None
    per_hour = facts.fleet.committed_usd_per_hour + facts.offer_now.usd_per_hour
    bill = max(Decimal(0), facts.usd_spent_today) + per_hour * hours_to_midnight(facts.now)
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


def too_slow(_: Launch, facts: Facts) -> Refusal | None:
    """Refuse an offer that was measured to make less than its benchmark must show: it would be destroyed after it.

    The table of expected rates is too coarse for a no: without a measurement the benchmark itself decides.
    """
    least, offer = facts.spec.fleet.vast.instance.min_proofs_per_hour, facts.offer_now
    if offer is None or offer.measured_rate is None or Decimal(str(offer_rate(offer))) >= least:
        return None
    return Refusal("TooSlow", f"{offer_rate(offer):g} proofs/h were measured; at least {least:f} are asked for")


ROOM_RULES: tuple[LaunchRule, ...] = (
    paused_up,
    workers_cannot_report,
    on_target_already,
    too_many_instances,
    launches_per_run,
    launches_per_hour,
    bill_unknown,
)
"""Whether there is room for any machine at all, whatever is on offer."""

OFFER_RULES: tuple[LaunchRule, ...] = (
    offer_not_seen,
    offer_gone,
    offer_implausible,
    offer_dearer,
    offer_outside_filter,
    host_excluded,
    host_in_use,
    over_hourly_budget,
    over_daily_budget,
    too_dear_per_proof,
    too_slow,
)

LAUNCH_RULES: tuple[LaunchRule, ...] = (*ROOM_RULES, *OFFER_RULES)
