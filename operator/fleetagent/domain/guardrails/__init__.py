"""Ordered rules: action and facts → refusal or nothing. The first that refuses wins.

Each is pure and is checked on facts read just before the effect. No text that a host or a model wrote is read here.
"""

from itertools import chain

from fleetagent.domain.facts import Facts, Launch, Refusal, Stop
from fleetagent.domain.guardrails.common import FIRST, LAST
from fleetagent.domain.guardrails.launch import LAUNCH_RULES
from fleetagent.domain.guardrails.stop import STOP_RULES

__all__ = ["FIRST", "LAST", "LAUNCH_RULES", "STOP_RULES", "check", "check_as_in_act"]


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
