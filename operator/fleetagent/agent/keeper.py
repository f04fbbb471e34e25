"""One task per agent: asks again and again whether anything is due, and sees to it that one run goes on at a time.

A nudge, a beat or a moment that has come wakes it; each pass reads everything anew (level-triggered). A run lives in a
task of its own, so that a suspend, a reset or a deletion is seen while the model thinks.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from fleetagent.agent.clock import Now
from fleetagent.agent.lease import kept
from fleetagent.agent.observe import Observe
from fleetagent.agent.pruning import Pruning
from fleetagent.agent.report import Known, Report
from fleetagent.agent.served import REMEMBERED, Served, wants_reset
from fleetagent.agent.subject import Subject, label_prefix, spec_hash
from fleetagent.agent.turn import Ended, Turn
from fleetagent.domain.fleet import Fleet
from fleetagent.domain.records import AgentKey, Lease
from fleetagent.domain.resource import FleetAgent, Mode
from fleetagent.domain.schedule import Due, Pending, Trigger, Wake, due, next_scheduled, scheduled_if_ever
from fleetagent.domain.status import Finding, Health
from fleetagent.errors import BadResource, FleetAgentError, LeaseLost, TryLater
from fleetagent.ports import Agents, Ledger, Runs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What keepers work with; the same for all agents."""

    cluster_name: str
    agents: Agents
    runs: Runs
    ledger: Ledger
    observe: Observe
    served: Served
    turn: Turn
    report: Report
    prune: Pruning
    now: Now
    look_every: timedelta
    """How old the picture of the fleet may be while no run is due."""
    renew_every: timedelta
    """How often a lease is renewed while it is held."""
    retry_after: timedelta
    """When to look again after a failure, or while another process owns the agent."""


class Keeper:
    """Keeps one agent. `look` and `nudge` never wait; `stop` ends it with its run."""

    def __init__(self, key: AgentKey, keeping: Keeping) -> None:
        self.key = key
        self._k = keeping
        self._body: Mapping[str, Any] = {}
        self._nudged = asyncio.Event()
        self._known = Known()
        self._run: asyncio.Task[Ended] | None = None
        self._lease: Lease | None = None
        self._looked_at: datetime | None = None
        self._sampled_at: datetime | None = None
        self._broke_at: datetime | None = None
        self._untold = False  # a run has ended and the status does not say so yet
        self._highest_run_id = 0  # a floor of our own, should database and status both be set back
        self._task: asyncio.Task[None] | None = None

    @property
    def uid(self) -> str:
        """Which resource of this name is kept."""
        return str(self._body["metadata"]["uid"])

    def look(self, body: Mapping[str, Any]) -> None:
        """Take this as the newest state of the resource and see soon what is due."""
        self._body = body
        self.nudge()

    def nudge(self) -> None:
        """See soon what is due."""
        self._nudged.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep(), name=f"keeper {self.key}")

    async def stop(self) -> None:
        """End the task, and the run with it; what the run was called for is given back."""
        for task in (self._task, self._run):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
        self._task = self._run = None
        if self._lease is not None:
            with contextlib.suppress(TryLater):
                await self._k.agents.release(self._lease)
            self._lease = None

    async def _keep(self) -> None:
        while True:
            self._nudged.clear()
            again_at = await self._try()
            pause = self._k.look_every
            if again_at is not None:
                pause = max(timedelta(0), min(pause, again_at - self._k.now()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause.total_seconds()):  # wait_for would swallow a `stop` beside a nudge
                    await self._nudged.wait()

    async def _try(self) -> datetime | None:
        """One pass; no failure of it ends the keeper."""
        try:
            return await self._pass()
        except LeaseLost as error:
            log.info("%s: %s", self.key, error)
            self._lease = None
        except BadResource as error:
            await self._complain(Finding(error.condition, "False", error.reason, str(error)))
        except TryLater as error:
            sentence = f"nothing is decided until the agent's memory can be reached again ({error}); tried again soon"
            await self._complain(Finding("Ready", "False", "MemoryUnavailable", sentence))
        except Exception as error:
            log.exception("%s: a pass failed; the next one starts afresh", self.key)
            sentence = f"a look failed ({type(error).__name__}); the operator's log says more"
            await self._complain(Finding("Ready", "False", "PassFailed", sentence))
        return self._k.now() + self._k.retry_after

    async def _complain(self, finding: Finding) -> None:
        """Say in the status what keeps the agent from working, even when its memory cannot be reached."""
        self._note(finding)
        if await self._k.report.complain(self._body, self._known, finding, self._k.now()):
            log.warning("%s: %s", self.key, finding.message)

    async def _pass(self) -> datetime | None:
        subject = await self._subject()
        if subject.record.deleted:
            return None  # another process has seen its end; a watch that lags must not work for it any more
        if self._run is not None and self._run.done():
            self._take_in(self._run)
            self._run = None
        if self._run is not None:
            if (why := _no_longer_wanted(subject)) is None:
                pending, _ = await self._k.runs.waiting(subject.record.id)
                await self._k.served.persist(subject, pending)
                return None  # the run's end nudges
            await self._cancel_run(why)
        lease = await self._own(subject)
        if lease is None:
            return self._k.now() + self._k.retry_after
        async with kept(self._k.agents, lease, self._k.renew_every):
            subject = await self._again(subject)  # what was read before the lease may be another process's past
            subject = await self._serve(subject, lease)
            self._note_the_schedule(subject)
            pending, wakes = await self._k.runs.waiting(subject.record.id)
            if await self._k.served.persist(subject, pending):
                pending, wakes = await self._k.runs.waiting(subject.record.id)
            return await self._go_on(subject, lease, pending, wakes)

    async def _go_on(
        self, subject: Subject, lease: Lease, pending: tuple[Pending, ...], wakes: tuple[Wake, ...]
    ) -> datetime | None:
        what = Due((), None)
        if subject.spec.mode is not Mode.SUSPENDED:
            what = due(
                self._k.now(),
                next_scheduled_at=subject.record.next_scheduled_at,
                pending=pending,
                wakes=wakes,
                debounce=subject.spec.schedule.debounce,
            )
        rests_until = self._rests_until()
        if what and rests_until is None:
            if self._untold:
                await self._tell(subject, lease, wakes, what.look_again_at)
            await self._start(subject, lease)
            return None
        if self._looked_at is None or self._k.now() - self._looked_at >= self._k.look_every:
            await self._look_at_the_fleet(subject, lease)
        await self._tell(subject, lease, wakes, what.look_again_at)
        await self._k.prune(self.key, lease, subject.spec.retention, busy=lambda: self._busy(what.look_again_at))
        await self._k.agents.release(lease)
        self._lease = None
        return min((at for at in (what.look_again_at, rests_until) if at is not None), default=None)

    def _rests_until(self) -> datetime | None:
        """A run that broke is begun again after a pause: else what called for it would be given up within a second."""
        now, broke_at = self._k.now(), self._broke_at
        if broke_at is None or not broke_at <= now < broke_at + self._k.retry_after:
            return None
        return broke_at + self._k.retry_after

    async def _subject(self) -> Subject:
        agent = FleetAgent.stored(self._body)
        status = agent.status
        handled = {name: value for name in REMEMBERED if (value := getattr(status, f"last_handled_{name}")) is not None}
        floor = max(status.last_run_id or 0, self._highest_run_id)
        record = await self._k.agents.meet(self.key, agent.metadata.uid, floor=floor, handled=handled)
        self._highest_run_id = record.last_run_id
        self._known.health = replace(self._known.health, problems=())
        return Subject(agent, record, label_prefix(self._k.cluster_name, self.key))

    def _newest(self, subject: Subject) -> Subject:
        """The same subject with the resource as it is now, if it still is that one and can be read."""
        try:
            agent = FleetAgent.stored(self._body)
        except BadResource:
            return subject
        return replace(subject, agent=agent) if agent.metadata.uid == subject.agent.metadata.uid else subject

    async def _again(self, subject: Subject) -> Subject:
        """The same resource with its row as it is now."""
        record = await self._k.agents.meet(
            self.key, subject.agent.metadata.uid, floor=subject.record.last_run_id, handled={}
        )
        return replace(subject, record=record)

    async def _own(self, subject: Subject) -> Lease | None:
        lease = await self._k.agents.take_lease(subject.record.id)
        self._lease = lease
        if lease is not None:
            for run_id in await self._k.runs.interrupt_stale(lease):
                log.warning("%s run %s was interrupted; what it was called for is due again", self.key, run_id)
                self._untold = True
        return lease

    async def _serve(self, subject: Subject, lease: Lease) -> Subject:
        """Resets, what cannot be served, and the schedule; the row afterwards."""
        changed = [
            await self._k.served.reset(subject, lease),
            await self._k.served.refuse_the_rest(subject, lease),
            await self._set_schedule(subject, lease),
        ]
        return await self._again(subject) if any(changed) else subject

    async def _set_schedule(self, subject: Subject, lease: Lease) -> bool:
        """A changed spec starts its schedule anew and calls for a run; whether anything was written."""
        record, schedule, now = subject.record, subject.spec.schedule, self._k.now()
        hashed = spec_hash(subject.spec)
        if record.spec_hash is None:
            await self._k.agents.schedule(lease, now, hashed)
            return True
        if record.spec_hash != hashed:  # the call first: after a crash in between it is made again, not lost
            await self._k.runs.persist(record.id, Trigger.SPEC_CHANGE, hashed)
            await self._k.agents.schedule(lease, scheduled_if_ever(schedule, after=now, last=None), hashed)
            return True
        planned = record.next_scheduled_at
        next_at = scheduled_if_ever(schedule, after=now, last=planned)
        if planned is not None and planned > now and (next_at is None or planned > next_at):
            await self._k.agents.schedule(lease, next_at, hashed)  # the clock was ahead when it was planned
            return True
        return False

    def _note_the_schedule(self, subject: Subject) -> None:
        """A schedule that never comes is said; the fleet is still looked at, and whatever else is due still runs."""
        try:
            next_scheduled(subject.spec.schedule, after=self._k.now(), last=None)
        except BadResource as error:
            self._note(Finding(error.condition, "False", error.reason, str(error)))

    async def _start(self, subject: Subject, lease: Lease) -> None:
        planned, now = subject.record.next_scheduled_at, self._k.now()
        if planned is not None and planned <= now:
            # Written down before the schedule moves on: an interrupted run gives it back like everything else.
            await self._k.runs.persist(subject.record.id, Trigger.SCHEDULE, f"{planned:%Y-%m-%dT%H:%M:%SZ}")
            at = scheduled_if_ever(subject.spec.schedule, after=now, last=planned)
            await self._k.agents.schedule(lease, at, spec_hash(subject.spec))
        taken = self._k.turn.take(subject, lease, self._newest)
        self._run = asyncio.create_task(taken, name=f"run of {self.key}")
        self._run.add_done_callback(lambda _: self._nudged.set())

    async def _cancel_run(self, why: str) -> None:
        if self._run is not None:
            self._run.cancel(why)
            await asyncio.wait({self._run})
            self._take_in(self._run)
            self._run = None

    def _take_in(self, run: asyncio.Task[Ended]) -> None:
        """What the run left for the report; its failures are told, never raised."""
        self._lease = None
        self._untold = True
        if run.cancelled():
            return
        error = run.exception()
        self._broke_at = self._k.now() if error is not None else None
        if isinstance(error, FleetAgentError):
            log.warning("%s: the run ended early: %s", self.key, error)
        elif error is not None:
            log.error("%s: the run broke", self.key, exc_info=error)
            self._note(Finding("Ready", "False", "RunBroke", f"{type(error).__name__}; the operator's log says more"))
        else:
            ended = run.result()
            self._known.seen = ended.seen
            self._looked_at = ended.seen.at
            asked = ended.model_asked or self._known.health.model_asked
            problem = (
                ended.model_problem if ended.model_asked or ended.model_problem else self._known.health.model_problem
            )
            self._known.health = Health(problem, asked, (), ended.outcome, ended.error)
            self._known.health_of_run = ended.run.run_id

    async def _look_at_the_fleet(self, subject: Subject, lease: Lease) -> None:
        self._known.seen, self._known.pulse = await self._k.observe(subject, lease)
        self._looked_at = self._k.now()

    async def _sample(self, subject: Subject) -> None:
        """A point for the plots from the newest look, a run's or our own, at most one in the time between two looks."""
        seen, before = self._known.seen, self._sampled_at
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

    async def _tell(
        self, subject: Subject, lease: Lease, wakes: tuple[Wake, ...], next_run_at: datetime | None
    ) -> None:
        now = self._k.now()
        await self._k.report.alerts(subject.agent.metadata, await self._k.runs.tell_alerts(lease))
        if self._known.seen is not None:
            self._known.pulse = await self._k.ledger.pulse(subject.record.id, 0, now)
        await self._sample(subject)
        last = await self._k.runs.last(subject.record.id)
        self._known.hear_of(subject, last)
        await self._k.report(subject, self._known, last=last, wakes=wakes, next_run_at=next_run_at, now=now)
        self._untold = False

    def _busy(self, due_at: datetime | None) -> bool:
        return self._nudged.is_set() or (due_at is not None and self._k.now() >= due_at)

    def _note(self, finding: Finding) -> None:
        others = tuple(p for p in self._known.health.problems if p.type != finding.type)
        self._known.health = replace(self._known.health, problems=(*others, finding))


def _no_longer_wanted(subject: Subject) -> str | None:
    """Why the run that goes on must end now, or None."""
    if subject.spec.mode is Mode.SUSPENDED:
        return "spec.mode is Suspended"
    return "the session is reset" if wants_reset(subject) else None
