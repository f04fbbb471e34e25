"""Rules for every action, launch or stop."""

from collections.abc import Callable

from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.facts import Facts, Launch, Refusal, Stop
from fleetagent.domain.fleet import FleetUnknown
from fleetagent.domain.resource import Direction, Mode

AnyRule = Callable[[Launch | Stop, Facts], Refusal | None]


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


def paused(direction: Direction, facts: Facts) -> Refusal | None:
    """Refuse while a pause covers this direction."""
    pause = facts.spec.pause
    if pause is None or not pause.refuses(direction, facts.now):
        return None
    return Refusal("Paused", f"paused until {pause.until:%Y-%m-%d %H:%M} UTC: {pause.reason or 'no reason given'}")


FIRST: tuple[AnyRule, ...] = (installation_stopped, suspended, fleet_unknown, demand_unknown)

LAST: tuple[AnyRule, ...] = (mode_holds_back,)
