"""Rules for every action, launch or stop."""

from collections.abc import Callable
from datetime import timedelta

from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.facts import MODEL, Facts, Launch, Refusal, Stop
from fleetagent.domain.fleet import Fleet, FleetUnknown, Waiting
from fleetagent.domain.resource import Direction, Mode

NEEDS_APPROVAL, DRY_RUN = "NeedsApproval", "DryRun"
"""Codes of what nothing but the mode refuses; the first can be lifted by a person."""

AnyRule = Callable[[Launch | Stop, Facts], Refusal | None]

FRESH_FOR = timedelta(minutes=2)
"""How old a look at the fleet may be when something is done because of it."""


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
            return Refusal(DRY_RUN, "mode DryRun: this would have been done; nothing is done")
        case Mode.APPROVE:
            return Refusal(NEEDS_APPROVAL, "mode Approve: it waits until a person approves it")
        case _:
            return None


def fleet_unknown(_: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse while the fleet cannot be read in full: unknown is never zero."""
    if isinstance(facts.fleet, FleetUnknown):
        return Refusal("FleetUnknown", f"the fleet is not known now: {facts.fleet.because}")
    return None


def fleet_stale(_: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse what rests on a look at the fleet of more than two minutes ago, or of a time that has not come yet."""
    if isinstance(facts.fleet, FleetUnknown) or abs(facts.now - facts.fleet.observed_at) <= FRESH_FOR:
        return None
    return Refusal("FleetStale", f"the fleet was looked at {facts.fleet.observed_at:%Y-%m-%d %H:%M:%S} UTC; look again")


def model_budget_used_up(action: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse what the model wants when its tokens of the day are used up; nobody else's wish is refused for that."""
    most, used = facts.spec.budget.model_tokens_per_day, facts.model_tokens_today
    if action.by != MODEL or most is None or used < most:
        return None
    return Refusal("ModelBudgetUsedUp", f"{used} of {most} model tokens are used up today")


def demand_unknown(_: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse while demand is unknown: neither launch nor stop."""
    if isinstance(facts.demand, DemandUnknown):
        return Refusal("DemandUnknown", f"the demand is not known now: {facts.demand.because}")
    return None


def waits_already(action: Launch | Stop, facts: Facts) -> Refusal | None:
    """Refuse what waits for a person's approval already: the same offer, host or machine."""
    waiting = facts.fleet.waiting if isinstance(facts.fleet, Fleet) else ()
    twin = next((w for w in waiting if _same(action, w, facts)), None)
    if twin is None:
        return None
    return Refusal("SameIntentInFlight", f"{twin.name} waits for approval of the same; it counts already")


def _same(action: Launch | Stop, waiting: Waiting, facts: Facts) -> bool:
    if isinstance(action, Stop):
        instance = facts.fleet.named(action.instance_id) if isinstance(facts.fleet, Fleet) else None
        return waiting.kind == "stop" and instance is not None and instance.label == waiting.label
    offer = waiting.offer
    if offer is None:
        return False
    same_host = facts.offer_now is not None and facts.offer_now.machine_id == offer.machine_id
    return action.offer_id == offer.offer_id or same_host


def paused(direction: Direction, facts: Facts) -> Refusal | None:
    """Refuse while a pause covers this direction."""
    pause = facts.spec.pause
    if pause is None or not pause.refuses(direction, facts.now):
        return None
    return Refusal("Paused", f"paused until {pause.until:%Y-%m-%d %H:%M} UTC: {pause.reason or 'no reason given'}")


FIRST: tuple[AnyRule, ...] = (
    installation_stopped,
    suspended,
    model_budget_used_up,
    fleet_unknown,
    fleet_stale,
    demand_unknown,
    waits_already,
)

LAST: tuple[AnyRule, ...] = (mode_holds_back,)
