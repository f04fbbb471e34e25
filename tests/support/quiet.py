"""An agent after a quiet run, and a market of which only the offers are asked."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fleetagent.domain.fleet import Offer
from fleetagent.domain.observation import Observation
from fleetagent.errors import TryLater
from support.fakes import StrictModel, calls, says
from support.fleets import an_instance, an_observation, an_offer
from support.rehearsal import Rehearsal

LATER = timedelta(minutes=5)


@dataclass
class Offers:
    """A market of which only the offers are asked."""

    now: list[Offer] = field(default_factory=lambda: [an_offer()])
    fails: bool = False

    async def offers(self, *_: Any) -> tuple[Offer, ...]:
        if self.fails:
            raise TryLater("the market is away")
        return tuple(self.now)


async def a_quiet_run(**changes: Any) -> tuple[Rehearsal, StrictModel]:
    """A rehearsal after one quiet run, five minutes later."""
    model = StrictModel(calls("get_fleet"), *[says()] * 3)
    on = Rehearsal(model, **{"market": Offers(), **changes})
    await on.run()
    assert on.memory.concluded[1].quiet
    on.now += LATER
    model.requests.clear()
    return on, model


def off_target(**changes: Any) -> Observation:
    """Far below the target."""
    return an_observation(an_instance(), wanted=500, **changes)
