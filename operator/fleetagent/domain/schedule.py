"""When is a run due, and why: interval, cron, wakes, persisted triggers, debounce."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from fleetagent.domain.resource import Debounce, FleetAgentSpec, Schedule, WakeLimits
from fleetagent.errors import BadResource


class Trigger(StrEnum):
    """Why a run starts."""

    SCHEDULE = "Schedule"
    WAKE = "Wake"
    REQUEST = "Request"
    EVENT = "Event"
    SPEC_CHANGE = "SpecChange"
    FEEDBACK = "Feedback"
    APPROVAL = "Approval"


@dataclass(frozen=True, slots=True)
class Pending:
    """A persisted trigger that no concluded run has served. `words` is what the model is told of it."""

    id: int
    kind: Trigger
    value: str
    words: str | None
    at: datetime
    taken_up: bool = False
    """A run that goes on serves it."""


@dataclass(frozen=True, slots=True)
class Wake:
    """A future run that the model asked for."""

    id: int
    at: datetime
    reason: str
    asked_by_run: int
    taken_up: bool = False
    """A run that goes on serves it."""


@dataclass(frozen=True, slots=True)
class Due:
    """What a run may take up now, and when to look again at the latest."""

    kinds: tuple[Trigger, ...]
    look_again_at: datetime | None

    def __bool__(self) -> bool:
        return bool(self.kinds)


def due(
    now: datetime,
    *,
    next_scheduled_at: datetime | None,
    pending: Sequence[Pending],
    wakes: Sequence[Wake],
    debounce: Debounce,
) -> Due:
    """Which kinds of trigger call for a run at `now`.

    Only Events are debounced: a burst ends `idle` after its last one, at the latest `max` after its first, so that a
    fleet that changes every second cannot put the run off for ever. Whatever else is due takes waiting Events along.
    """
    later: list[datetime] = []
    kinds: set[Trigger] = {p.kind for p in pending if p.kind is not Trigger.EVENT}
    for trigger, times in (
        (Trigger.SCHEDULE, [next_scheduled_at] if next_scheduled_at else []),
        (Trigger.WAKE, [w.at for w in wakes]),
        (Trigger.EVENT, _burst_ends([p.at for p in pending if p.kind is Trigger.EVENT], debounce)),
    ):
        kinds |= {trigger for at in times if at <= now}
        later += [at for at in times if at > now]
    if kinds and any(p.kind is Trigger.EVENT for p in pending):
        kinds.add(Trigger.EVENT)
    return Due(tuple(t for t in Trigger if t in kinds), min(later, default=None))


def waits_since(now: datetime, pending: Sequence[Pending], wakes: Sequence[Wake]) -> datetime | None:
    """Since when the oldest trigger or due wake waits for a run; None when nothing waits."""
    waiting = [p.at for p in pending if not p.taken_up] + [w.at for w in wakes if not w.taken_up and w.at <= now]
    return min(waiting, default=None)


def was_due_at(
    began: datetime, *, planned: datetime | None, pending: Sequence[Pending], wakes: Sequence[Wake], debounce: Debounce
) -> datetime | None:
    """When the run that began then had to begin: as soon as the first of what called for it did. None: unknown.

    Events that it took along before their burst was over have not waited.
    """
    moments = [planned, *(w.at for w in wakes)]
    moments += [p.at for p in pending if p.kind not in {Trigger.EVENT, Trigger.SCHEDULE}]
    moments += _burst_ends([p.at for p in pending if p.kind is Trigger.EVENT], debounce)
    return min((at for at in moments if at is not None and at <= began), default=None)


def _burst_ends(times: Sequence[datetime], debounce: Debounce) -> list[datetime]:
    return [min(max(times) + debounce.idle, min(times) + debounce.max)] if times else []


LONGEST_SPREAD = timedelta(seconds=30)
"""Less than a minute: what cron says of minutes stays true."""


def spread(schedule: Schedule, uid: str) -> timedelta:
    """How far this agent's runs are moved, so that a thousand with one schedule don't all ask at once.

    The same for ever, whichever process asks: below 30 s, and below a tenth of an interval.
    """
    most = LONGEST_SPREAD if schedule.every is None else min(LONGEST_SPREAD, schedule.every / 10)
    share: float = int.from_bytes(sha256(uid.encode()).digest()[:4]) / 2**32
    return most * share


def next_scheduled(schedule: Schedule, uid: str, *, after: datetime, last: datetime | None) -> datetime:
    """The first scheduled moment later than `after`; `BadResource` for a cron or zone that makes no sense.

    An interval keeps its beat from `last` (the moment that was scheduled before), so it does not drift, and a downtime
    is followed by one run, not by all that were missed; where a beat begins, the first gap is shorter by the agent's
    `spread`. Cron follows its time zone, daylight-saving changes included, always later by `spread`.
    """
    moved = spread(schedule, uid)
    if (interval := schedule.every) is None:
        return _next_by_cron(schedule.cron or "", schedule.time_zone or "UTC", after - moved) + moved
    if last is None or last > after + interval:
        return after + interval - moved
    missed = max(0, (after - last) // interval)
    return last + interval * (missed + 1)


def next_planned(spec: FleetAgentSpec, uid: str, *, after: datetime, last: datetime | None) -> datetime | None:
    """The next moment that the spec itself calls for: that of its schedule, or the end of a pause where that is sooner.

    A schedule that makes no sense calls for no run.
    """
    moments = []
    with contextlib.suppress(BadResource):
        moments.append(next_scheduled(spec.schedule, uid, after=after, last=last))
    if spec.pause is not None:
        moments.append(spec.pause.until + spread(spec.schedule, uid))
    return min((moment for moment in moments if moment > after), default=None)


def starts_at(schedule: Schedule, uid: str, *, planned: datetime | None, watched_since: datetime) -> datetime | None:
    """When a planned run begins: at its moment; if nobody watched then, `spread` after somebody does again.

    After an outage a thousand agents are overdue at the same instant.
    """
    if planned is None or planned >= watched_since:
        return planned
    return watched_since + spread(schedule, uid)


def _next_by_cron(cron: str, time_zone: str, after: datetime) -> datetime:
    """The API server cannot refuse a date that never comes, or a zone that only its own list has: it is said here."""
    try:
        zone = UTC if time_zone == "UTC" else ZoneInfo(time_zone)
        moments = (moment.astimezone(UTC) for moment in CronSim(cron, after.astimezone(zone)))
        # In an hour that comes twice, CronSim names the first pass again: a moment that is over.
        return next(moment for moment in moments if moment > after)
    except (CronSimError, StopIteration) as error:
        sentence = f"spec.schedule.cron: {cron!r} never comes ({error}): correct it"
        raise BadResource("Ready", "InvalidSchedule", sentence) from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        sentence = f"spec.schedule.timeZone: this operator knows no zone {time_zone!r}: use another name of it, or UTC"
        raise BadResource("Ready", "InvalidSchedule", sentence) from error


def wake_at(minutes: float, now: datetime, limits: WakeLimits) -> datetime:
    """The moment of a wake asked for in so many minutes, clamped to what the spec allows."""
    asked = timedelta(minutes=min(max(minutes, 0.0), 1e6))
    return now + min(max(asked, limits.min), limits.max)
