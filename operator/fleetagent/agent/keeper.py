"""One task per agent: asks again and again whether anything is due, and sees to it that one run goes on at a time.

A nudge, a beat or a moment that has come wakes it; each pass reads everything anew (level-triggered). A run lives in a
task of its own, so that a suspend, a reset or a deletion is seen while the model thinks.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from fleetagent.agent.gate import in_turn
from fleetagent.agent.holding import Holding
from fleetagent.agent.keeping import Keeping
from fleetagent.agent.served import REMEMBERED, wants_reset
from fleetagent.agent.sight import Sight
from fleetagent.agent.subject import Subject, label_prefix
from fleetagent.agent.telling import telling
from fleetagent.agent.timetable import Timetable
from fleetagent.agent.turn import Ended
from fleetagent.agent.unbroken import unbroken
from fleetagent.domain.records import AgentKey, AgentRecord, Lease, Taken
from fleetagent.domain.resource import GROUP, FleetAgent, Mode
from fleetagent.domain.schedule import Due, due, waits_since
from fleetagent.domain.status import Finding
from fleetagent.errors import BadResource, FleetAgentError, LeaseLost, NotStorable, TryLater

log = logging.getLogger(__name__)


class Keeper:
    """Keeps one agent. `look` and `nudge` never wait; `stop` ends it with its run."""

    def __init__(self, key: AgentKey, keeping: Keeping) -> None:
        self.key = key
        self._k = keeping
        self._body: Mapping[str, Any] = {}
        self._shown: Mapping[str, Any] | None = None  # a status that is as it must be
        self._begun = False
        self._nudged = asyncio.Event()
        self._sight = Sight(keeping)
        self._timetable = Timetable(keeping)
        self._holding = Holding(key, keeping.meter)
        self._run: asyncio.Task[Ended] | None = None
        self._lease: Lease | None = None
        self._broke_at: datetime | None = None
        self._highest_run_id = 0  # a floor of our own, should database and status both be set back
        self._rests_till: datetime | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def body(self) -> Mapping[str, Any]:
        """The resource as it was heard of last."""
        return self._body

    @property
    def uid(self) -> str:
        """Which resource of this name is kept."""
        return str(self._body["metadata"]["uid"])

    def look(self, body: Mapping[str, Any]) -> None:
        """Take this as the newest state of the resource; see soon what is due if somebody asks for something else now.

        When something is due by itself is known, and what the database has to say comes with `nudge`.
        """
        before, self._body = self._body, body
        is_kept = self._task is not None and not self._task.done()
        if not is_kept or _asked(before) != _asked(body) or self._was_written(body) or self._has_overslept():
            self.nudge()

    def _has_overslept(self) -> bool:
        """Whether the clock has jumped over the end of a rest: a machine that slept wakes up in the middle of one."""
        return self._rests_till is not None and self._k.now() > self._rests_till

    def _was_written(self, body: Mapping[str, Any]) -> bool:
        """Whether the status is not what it must be: somebody else has written it, or the watch lags."""
        status = body.get("status") or {}
        if status == self._shown:
            return False
        if is_ours := self._sight.known.written.shows(status):
            self._shown = status
        return not is_ours

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
            with contextlib.suppress(NotStorable, TryLater):  # it ends by itself
                await self._k.agents.release(self._lease)
            self._lease = None
        self._holding.handed_over()

    async def _keep(self) -> None:
        with telling(agent=str(self.key)):
            await self._go_round()

    async def _go_round(self) -> None:
        while True:
            self._nudged.clear()
            self._rests_till = again_at = await self._try()
            pause = self._k.look_every if again_at is None else max(timedelta(0), again_at - self._k.now())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause.total_seconds()):  # wait_for would swallow a `stop` beside a nudge
                    await self._nudged.wait()

    async def _try(self) -> datetime | None:
        """One pass; no failure of it ends the keeper."""
        try:
            if self._begun:
                return await self._pass()
            async with in_turn(self._k.starting):
                self._begun = True
                return await self._pass()
        except LeaseLost as error:
            log.info("%s: %s", self.key, error)
            self._lease = None
            self._holding.lost()
        except BadResource as error:
            await self._complain(Finding(error.condition, "False", error.reason, str(error)))
        except TryLater as error:
            sentence = f"nothing is decided until the agent's memory can be reached again ({error}); tried again soon"
            await self._complain(Finding("Ready", "False", "MemoryUnavailable", sentence))
        except Exception as error:
            log.exception("%s: a pass failed; the next one starts afresh", self.key)
            sentence = f"a look failed ({type(error).__name__}); the operator's log says more"
            await self._complain(Finding("Ready", "False", "PassFailed", sentence))
        self._timetable.unwatch()
        return self._k.now() + self._k.retry_after

    async def _complain(self, finding: Finding) -> None:
        """Say in the status what keeps the agent from working, even when its memory cannot be reached."""
        self._sight.note(finding)
        if await self._k.report.complain(self._body, self._sight.known, finding, self._k.now()):
            log.warning("%s: %s", self.key, finding.message)

    async def _pass(self) -> datetime | None:
        agent = FleetAgent.stored(self._body)
        if self._run is not None and self._run.done():
            self._take_in(self._run)
            self._run = None
        self._sight.known.health = replace(self._sight.known.health, problems=())
        if self._run is not None:
            subject = await self._met(agent)
            if subject.record.deleted:
                return None  # another process has seen its end; a watch that lags must not work for it any more
            if (why := _no_longer_wanted(subject)) is None:
                pending, wakes = await self._k.runs.waiting(subject.record.id)
                self._k.meter.waits(self.key, waits_since(self._k.now(), pending, wakes))
                if await self._k.served.persist(subject, pending):
                    log.info("%s: somebody asked for something: it calls for the next run", self.key)
                return None  # the run's end nudges
            await self._cancel_run(why)
        if self._sight.known.gone and not await self._k.report.finds(agent.metadata, self._sight.known):
            return self._k.now() + self._k.look_every
        taken = await unbroken(self._take(agent))
        if taken is None:
            self._timetable.unwatch()
            return self._k.now() + self._k.retry_after
        self._timetable.watch()
        async with self._k.ownership.kept(taken.lease):
            if taken.left_running:
                taken = await self._without_stale_runs(taken)
            subject = await self._serve(self._subject(agent, taken.record), taken)
            if (problem := self._timetable.problem(subject)) is not None:
                self._sight.note(problem)
            called = await self._k.served.persist(subject, taken.pending)
            if called:
                log.info("%s: somebody asked for something: it calls for a run", self.key)
            again_at = await self._go_on(subject, taken, called=bool(called))
        if self._run is None:  # not within the block: a renewal at this moment would take it for lost
            await self._k.agents.release(taken.lease)
            self._lease = None
        return again_at

    async def _take(self, agent: FleetAgent) -> Taken | None:
        """Own the agent, and know of it: a lease that was taken for nobody would keep other replicas waiting."""
        uid, (floor, handled) = agent.metadata.uid, self._told_by_status(agent)
        taken = await self._k.agents.take(self.key, uid, floor=floor, handled=handled, now=self._k.now())
        if taken is None:
            self._holding.lost()
        else:
            self._holding.taken()
            self._lease, self._highest_run_id = taken.lease, taken.record.last_run_id
        return taken

    async def _go_on(self, subject: Subject, taken: Taken, *, called: bool) -> datetime | None:
        lease, what, since = taken.lease, Due((), None), None
        if subject.spec.mode is not Mode.SUSPENDED:
            since = waits_since(self._k.now(), taken.pending, taken.wakes)
            what = due(
                self._k.now(),
                next_scheduled_at=self._timetable.starts_at(subject),
                pending=taken.pending,
                wakes=taken.wakes,
                debounce=subject.spec.schedule.debounce,
            )
            called = called or bool(what)
        else:
            called = False
        self._k.meter.waits(self.key, since)
        rests_until = self._rests_until()
        if called and rests_until is None:
            if self._sight.untold:
                await self._sight.tell(subject, taken, what.look_again_at)
            if not self._sight.known.gone:
                await self._start(subject, lease)
                return None
        looked = self._sight.looks_at() <= self._k.now()
        if looked:
            await self._sight.look(subject, lease)
        await self._sight.tell(subject, taken, what.look_again_at, looked=looked)
        retention = subject.spec.retention
        pruned = await self._k.prune(self.key, lease, retention, busy=lambda: self._busy(what.look_again_at))
        if pruned is not None:
            self._k.meter.tables(pruned.sizes)
        return min(at for at in (what.look_again_at, rests_until, self._sight.looks_at()) if at is not None)

    def _rests_until(self) -> datetime | None:
        """A run that broke is begun again after a pause: else what called for it would be given up within a second."""
        now, broke_at = self._k.now(), self._broke_at
        if broke_at is None or not broke_at <= now < broke_at + self._k.retry_after:
            return None
        return broke_at + self._k.retry_after

    def _subject(self, agent: FleetAgent, record: AgentRecord) -> Subject:
        return Subject(agent, record, label_prefix(self._k.cluster_name, self.key))

    def _told_by_status(self, agent: FleetAgent) -> tuple[int, dict[str, str]]:
        """The highest run number, and what was handled last, as far as the status knows."""
        status = agent.status
        handled = {name: value for name in REMEMBERED if (value := getattr(status, f"last_handled_{name}")) is not None}
        return max(status.last_run_id or 0, self._highest_run_id), handled

    async def _met(self, agent: FleetAgent) -> Subject:
        floor, handled = self._told_by_status(agent)
        record = await self._k.agents.meet(self.key, agent.metadata.uid, floor=floor, handled=handled)
        self._highest_run_id = record.last_run_id
        return self._subject(agent, record)

    def _newest(self, subject: Subject) -> Subject:
        """The same subject with the resource as it is now, if it still is that one and can be read."""
        try:
            agent = FleetAgent.stored(self._body)
        except BadResource:
            return subject
        return replace(subject, agent=agent) if agent.metadata.uid == subject.agent.metadata.uid else subject

    async def _without_stale_runs(self, taken: Taken) -> Taken:
        """Runs that a dead process left running end; what they were called for is due again."""
        for run_id in await self._k.runs.interrupt_stale(taken.lease):
            log.warning("%s run %s was interrupted; what it was called for is due again", self.key, run_id)
            self._sight.untold = True
        pending, wakes = await self._k.runs.waiting(taken.record.id)
        last = await self._k.runs.last(taken.record.id)
        return replace(taken, pending=pending, wakes=wakes, untold=True, last=last)

    async def _serve(self, subject: Subject, taken: Taken) -> Subject:
        """Resets, what cannot be served, and the schedule; the row afterwards."""
        lease = taken.lease
        if taken.waited_too_long:
            await self._k.served.expire(subject, lease)
        changed = [
            await self._k.served.reset(subject, lease),
            await self._k.served.refuse_the_rest(subject, lease),
            await self._timetable.plan(subject, lease),
        ]
        if not any(changed):
            return subject
        uid = subject.agent.metadata.uid
        record = await self._k.agents.meet(self.key, uid, floor=subject.record.last_run_id, handled={})
        return replace(subject, record=record)

    async def _start(self, subject: Subject, lease: Lease) -> None:
        await self._timetable.take_up(subject, lease)
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
        self._sight.untold = True
        if run.cancelled():
            return
        error = run.exception()
        self._broke_at = self._k.now() if error is not None else None
        if isinstance(error, LeaseLost):
            self._holding.lost()
        if isinstance(error, FleetAgentError):
            log.warning("%s: the run ended early: %s", self.key, error)
        elif error is not None:
            log.error("%s: the run broke", self.key, exc_info=error)
            sentence = f"{type(error).__name__}; the operator's log says more"
            self._sight.note(Finding("Ready", "False", "RunBroke", sentence))
        else:
            self._sight.take_in(run.result())

    def _busy(self, due_at: datetime | None) -> bool:
        return self._nudged.is_set() or (due_at is not None and self._k.now() >= due_at)


def _asked(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """What somebody wants of a resource; its status and the marks of others are left out."""
    meta = body.get("metadata") or {}
    said = meta.get("annotations") or {}
    ours = {name: value for name, value in said.items() if name.startswith(f"{GROUP}/")}
    return meta.get("uid"), meta.get("generation"), ours


def _no_longer_wanted(subject: Subject) -> str | None:
    """Why the run that goes on must end now, or None."""
    if subject.spec.mode is Mode.SUSPENDED:
        return "spec.mode is Suspended"
    return "the session is reset" if wants_reset(subject) else None
