"""Whether the model need not be asked: nothing that matters is new since it looked and kept quiet."""

from datetime import timedelta

from fleetagent.agent.desk import Desk
from fleetagent.agent.planning import offers_for
from fleetagent.agent.subject import spec_hash
from fleetagent.domain.capacity import usd_per_proof
from fleetagent.domain.fleet import Offer
from fleetagent.domain.observation import Standing, fingerprint
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import BadResource, TryLater

LONGEST_OFF_TARGET = timedelta(minutes=15)
OFFERS_THAT_MATTER = 5


async def nothing_new(desk: Desk) -> bool:
    """Whether the model would be asked about a world that it has just seen and kept quiet about.

    Only the schedule may be skipped: whatever else called for the run is news in itself.
    """
    schedule, quiet, seen = desk.subject.spec.schedule, desk.subject.record.quiet, desk.seen
    if not schedule.skip_unchanged or quiet is None or desk.run.calls.kinds != (Trigger.SCHEDULE,):
        return False
    if desk.pulse.waiting or desk.pulse.decided:
        return False
    on_target = seen.standing is Standing.ON
    longest = schedule.max_quiet if on_target else min(schedule.max_quiet, LONGEST_OFF_TARGET)
    if not timedelta(0) <= desk.services.now() - quiet.at < longest:  # a look in the future: the clock was set back
        return False
    return await looks(desk) == quiet.fingerprint


async def looks(desk: Desk) -> str | None:
    """What the world looks like now, as a fingerprint; None when that may not count as unchanged later."""
    best: tuple[str, ...] = ()
    if desk.seen.standing is Standing.BELOW:
        try:
            best = _best(await offers_for(desk))
        except (TryLater, BadResource):
            return None
    pause = desk.subject.spec.pause
    paused = pause is not None and desk.seen.at < pause.until
    return fingerprint(desk.seen, spec_hash(desk.subject.spec), best, paused=paused)


def _best(offers: list[Offer]) -> tuple[str, ...]:
    cheapest = sorted(offers, key=lambda o: (usd_per_proof(o), o.offer_id))[:OFFERS_THAT_MATTER]
    return tuple(f"{o.offer_id} {o.usd_per_hour:.3f}" for o in cheapest)
