"""When the spec itself calls for a run: planned in the agent's row, and moved on when a run takes it up."""

from datetime import datetime

from fleetagent.agent.keeping import Keeping
from fleetagent.agent.subject import Subject, spec_hash
from fleetagent.domain.records import Lease
from fleetagent.domain.schedule import Trigger, next_planned, next_scheduled, starts_at
from fleetagent.domain.status import Finding
from fleetagent.errors import BadResource


class Timetable:
    """Of one agent; it lives as long as the keeper."""

    def __init__(self, keeping: Keeping) -> None:
        self._k = keeping
        self._watched_since: datetime | None = None

    def watch(self) -> None:
        """From now on, if not since before, nothing that comes due is missed."""
        now = self._k.now()
        self._watched_since = min(self._watched_since or now, now)

    def unwatch(self) -> None:
        """Something may come due unseen, until `watch`."""
        self._watched_since = None

    def starts_at(self, subject: Subject) -> datetime | None:
        """When the planned run begins; after an outage not at the same moment as everybody else's."""
        return starts_at(
            subject.spec.schedule,
            subject.record.uid,
            planned=subject.record.next_scheduled_at,
            watched_since=self._watched_since or self._k.now(),
        )

    async def plan(self, subject: Subject, lease: Lease) -> bool:
        """A changed spec starts its schedule anew and calls for a run; whether anything was written."""
        record, now = subject.record, self._k.now()
        hashed = spec_hash(subject.spec)
        if record.spec_hash is None:
            await self._k.agents.schedule(lease, now, hashed)
            return True
        if record.spec_hash != hashed:  # the call first: after a crash in between it is made again, not lost
            await self._k.runs.persist_owned(lease, Trigger.SPEC_CHANGE, hashed)
            await self._k.agents.schedule(lease, next_planned(subject.spec, record.uid, after=now, last=None), hashed)
            return True
        planned = record.next_scheduled_at
        next_at = next_planned(subject.spec, record.uid, after=now, last=planned)
        was_ahead = planned is not None and planned > now and (next_at is None or planned > next_at)  # the clock was
        makes_sense_now = planned is None and next_at is not None  # a newer version may know the zone, for instance
        if was_ahead or makes_sense_now:
            await self._k.agents.schedule(lease, next_at, hashed)
            return True
        return False

    def problem(self, subject: Subject) -> Finding | None:
        """A schedule that never comes; the fleet is still looked at, and whatever else is due still runs."""
        try:
            next_scheduled(subject.spec.schedule, subject.record.uid, after=self._k.now(), last=None)
        except BadResource as error:
            return Finding(error.condition, "False", error.reason, str(error))
        return None

    async def take_up(self, subject: Subject, lease: Lease) -> None:
        """What was planned calls for the run that begins now, if its moment has come; the next one is planned."""
        planned, now = subject.record.next_scheduled_at, self._k.now()
        if planned is not None and planned <= now:
            # Written down before the schedule moves on: an interrupted run gives it back like everything else.
            await self._k.runs.persist_owned(lease, Trigger.SCHEDULE, f"{planned:%Y-%m-%dT%H:%M:%SZ}")
            at = next_planned(subject.spec, subject.record.uid, after=now, last=planned)
            await self._k.agents.schedule(lease, at, spec_hash(subject.spec))
