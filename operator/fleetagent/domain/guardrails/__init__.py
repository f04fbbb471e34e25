"""Ordered rules: action and facts → refusal or nothing. The first that refuses wins.

Each is pure and is checked on facts read just before the effect. No text that a host or a model wrote is read here.
"""

from dataclasses import replace
from itertools import chain

from fleetagent.domain.facts import Facts, Launch, Refusal, Stop
from fleetagent.domain.fleet import Fleet
from fleetagent.domain.guardrails.common import DRY_RUN, FIRST, LAST, NEEDS_APPROVAL
from fleetagent.domain.guardrails.launch import LAUNCH_RULES, ROOM_RULES
from fleetagent.domain.guardrails.stop import STOP_RULES

__all__ = [
    "DRY_RUN",
    "FIRST",
    "LAST",
    "LAUNCH_RULES",
    "NEEDS_APPROVAL",
    "STOP_RULES",
    "check",
    "check_approved",
    "check_as_in_act",
    "no_room",
]


def check(action: Launch | Stop, facts: Facts) -> Refusal | None:
    """The first refusal, or None when the action may happen now."""
    return check_as_in_act(action, facts) or next(filter(None, (r(action, facts) for r in LAST)), None)


def check_approved(action: Launch | Stop, facts: Facts) -> Refusal | None:
    """As `check`, for what a person approved: mode Approve holds it back no more, and all else does."""
    refusal = check(action, facts)
    return None if refusal is not None and refusal.code == NEEDS_APPROVAL else refusal


def check_as_in_act(action: Launch | Stop, facts: Facts) -> Refusal | None:
    """What mode Act would refuse: a plan is the same in a mode that holds every effect back."""
    if isinstance(action, Launch):
        refusals = chain((r(action, facts) for r in FIRST), (r(action, facts) for r in LAUNCH_RULES))
    else:
        worst = (
            replace(facts, fleet=facts.fleet.at_worst)
            if isinstance(facts.fleet, Fleet) and facts.fleet.waiting
            else facts
        )
        refusals = chain((r(action, facts) for r in FIRST), (r(action, worst) for r in STOP_RULES))
    return next(filter(None, refusals), None)


def no_room(launch: Launch, facts: Facts) -> Refusal | None:
    """Why no machine at all may be launched now, whichever offer is taken; None when one may."""
    refusals = chain((r(launch, facts) for r in FIRST), (r(launch, facts) for r in ROOM_RULES))
    return next(filter(None, refusals), None)
