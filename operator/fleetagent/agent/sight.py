"""What the keeper of one agent has seen of its fleet, when it looks again, and what it tells of it."""

from dataclasses import replace
from datetime import datetime

from fleetagent.agent.keeping import Keeping
from fleetagent.agent.report import Known
from fleetagent.agent.subject import Subject
from fleetagent.agent.turn import Ended
from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.fleet import Fleet
from fleetagent.domain.records import Lease, Taken
from fleetagent.domain.status import Finding, Health

CALM_LOOKS = 30
"""So many times as seldom is a calm agent looked at: each 15 minutes, by default."""


class Sight:
    """Lives as long as the keeper; the newest look may be a run's."""

    def __init__(self, keeping: Keeping) -> None:
        self._k = keeping
        self.known = Known()
        self.untold = False
        """A run has ended and the status does not say so yet."""
        self._looked_at: datetime | None = None
        self._sampled_at: datetime | None = None

    def looks_at(self) -> datetime:
        """When the fleet is looked at next without a run: seldom where a look would find what the next run finds."""
        now = self._k.now()
        if self._looked_at is None or self._looked_at > now:
            return now
        return self._looked_at + self._k.look_every * (CALM_LOOKS if _is_calm(self.known) else 1)

    async def look(self, subject: Subject, lease: Lease) -> None:
        """Look without a run."""
        self.known.seen, self.known.pulse = await self._k.observe(subject, lease)
        self._looked_at = self._k.now()

    def take_in(self, ended: Ended) -> None:
        """What a run has seen and learnt."""
        before = self.known.health
        self.known.seen = ended.seen
        self._looked_at = ended.seen.at
        asked = ended.model_asked or before.model_asked
        problem = ended.model_problem if ended.model_asked or ended.model_problem else before.model_problem
        self.known.health = Health(problem, asked, (), ended.outcome, ended.error)
        self.known.health_of_run = ended.run.run_id

    def note(self, finding: Finding) -> None:
        """What the owner of the resource can mend, until the next pass finds it mended."""
        others = tuple(p for p in self.known.health.problems if p.type != finding.type)
        self.known.health = replace(self.known.health, problems=(*others, finding))

    async def tell(self, subject: Subject, taken: Taken, next_run_at: datetime | None, *, looked: bool = False) -> None:
        """Alerts and the status; after a look the ledger's counts are those of the look."""
        now = self._k.now()
        if taken.untold or (looked and self.known.pulse is not None and self.known.pulse.open_alerts):
            await self._k.report.alerts(subject.agent.metadata, await self._k.runs.tell_alerts(taken.lease))
        if self.known.seen is not None and not looked:
            self.known.pulse = await self._k.ledger.pulse(subject.record.id, 0, now)
        await self._sample(subject)
        self.known.hear_of(subject, taken.last)
        self.known.receivers = self._k.standing(subject.key)
        await self._k.report(subject, self.known, last=taken.last, wakes=taken.wakes, next_run_at=next_run_at, now=now)
        self.untold = False

    async def _sample(self, subject: Subject) -> None:
        """A point for the plots from the newest look, a run's or our own, at most one in the time between two looks."""
        seen, before = self.known.seen, self._sampled_at
        if seen is None or seen.capacity is None or not isinstance(seen.fleet, Fleet):
            return
        if before is not None and seen.at - before < self._k.look_every:
            return
        figures = {
            "proving": seen.capacity.proving,
            "on_the_way": seen.capacity.on_the_way,
            "proofs_per_hour": seen.capacity.proofs_per_hour,
            "projected_proofs_per_hour": seen.capacity.projected_proofs_per_hour,
            "target_proofs_per_hour": seen.target.proofs_per_hour if seen.target else 0.0,
            "usd_per_hour": seen.fleet.usd_per_hour,
        }
        await self._k.ledger.sample(subject.record.id, seen.at, figures)
        self._sampled_at = seen.at


def _is_calm(known: Known) -> bool:
    """Whether there is no machine that could change, nothing unknown, and nothing that somebody could mend."""
    seen, health = known.seen, known.health
    if seen is None or not isinstance(seen.fleet, Fleet) or isinstance(seen.demand, DemandUnknown):
        return False
    wrong = seen.launch_problem or seen.open_alerts or health.problems or health.model_problem
    return not (seen.fleet.instances or seen.fleet.waiting or wrong)
