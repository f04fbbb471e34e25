"""When the controller decides in the model's place: where the spec says so, and the model has failed for a while."""

from datetime import datetime, timedelta

from fleetagent.domain.resource import Fallback, FleetAgentSpec

TAKES_OVER_AFTER = timedelta(minutes=15)
"""How long the model has to fail first: one bad answer, or a server that restarts, is no reason to act without it."""


def controller_decides(
    spec: FleetAgentSpec, failing_since: datetime | None, at: datetime, *, tokens_used_up: bool
) -> bool:
    """Whether a run that began at `at` and got nothing from the model is the controller's.

    The first run that the model ends well gives back, and the wait begins anew: so nobody takes turns. With the tokens
    of the day used up there is nothing to wait for.
    """
    if spec.fallback is not Fallback.CONTROLLER or failing_since is None:
        return False
    return tokens_used_up or at - failing_since >= TAKES_OVER_AFTER
