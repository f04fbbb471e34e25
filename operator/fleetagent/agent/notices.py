"""Alerts go out: what waits in the outbox is brought to the receivers that a Secret names, beside all runs.

One task for all agents looks for what is due, and each agent that has something is served by a task of its own. A
receiver that is slow, down or silent keeps no run, no other agent and, but for seconds, no other receiver waiting: what
those take is marked off at once, and what is left is tried again, more and more seldom, for hours.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from fleetagent.agent.clock import Now
from fleetagent.agent.delivery import Addressed, Delivery, addressed
from fleetagent.domain.receivers import LOST, Standing
from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import SecretKeyRef
from fleetagent.domain.status import Finding
from fleetagent.errors import BadResource, LeaseLost, TryLater
from fleetagent.ports.notices import Outbox

log = logging.getLogger(__name__)

REMIND_EVERY = timedelta(minutes=1)
LOOK_AT_SECRET_EVERY = timedelta(minutes=15)
LOOK_AGAIN_EVERY = timedelta(seconds=30)
"""Where something is wrong with it."""
MOST_AT_ONCE = 16
"""Agents that are served at a time; each holds a database connection for milliseconds only. The next one begins as
soon as one has ended: a thousand that have something at once must not wait for as many looks as they are."""
ENDS_WITHIN_S = 25.0
"""How long a message that is under way may take when the process ends: as long as any."""

Resources = Callable[[], Iterable[Mapping[str, Any]]]


class Notices:
    """Lives as long as the process. `standing` tells each agent's report how it went."""

    def __init__(self, outbox: Outbox, deliver: Delivery, *, now: Now, every: timedelta) -> None:
        self._outbox = outbox
        self._deliver = deliver
        self._now = now
        self._every = every
        self._standing: dict[AgentKey, Standing] = {}
        self._looked: dict[AgentKey, tuple[datetime, SecretKeyRef]] = {}
        self._reminded_at: datetime | None = None
        self._tasks: dict[AgentKey, asyncio.Task[None]] = {}
        self._at_once = asyncio.Semaphore(MOST_AT_ONCE)
        self._is_closing = False

    def standing(self, key: AgentKey) -> Standing | None:
        """How it stands with this agent's receivers; None while nothing is known."""
        return self._standing.get(key)

    async def run(self, resources: Resources, nudge: Callable[[AgentKey], None]) -> None:
        """Look for what is due, again and again, for the agents that this process keeps; until it is cancelled.

        `nudge` makes an agent's report say soon what is known since now.
        """
        while True:
            try:
                await self._pass(addressed(resources()), nudge)
            except TryLater as error:
                log.warning("what is to be told outside is not known: %s", error)
            except Exception:
                log.exception("what is to be told outside is not known; it is looked for again")
            await asyncio.sleep(self._every.total_seconds())

    async def close(self) -> None:
        """Let what is under way end, and begin nothing more: the next process goes on with the rest."""
        self._is_closing = True
        self._deliver.end()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=ENDS_WITHIN_S)
        for task in tuple(self._tasks.values()):
            task.cancel()

    async def _pass(self, known: Mapping[AgentKey, Addressed], nudge: Callable[[AgentKey], None]) -> None:
        self._standing = {key: standing for key, standing in self._standing.items() if key in known}
        self._looked = {key: looked for key, looked in self._looked.items() if key in known}
        if not known:
            return
        now = self._now()
        if self._reminded_at is None or not timedelta(0) <= now - self._reminded_at < REMIND_EVERY:
            await self._outbox.remind()
            self._reminded_at = now
        due = await self._outbox.due()
        unseen = [key for key, to in known.items() if to.ref is not None and self._is_to_be_looked_at(key, to.ref, now)]
        for key in (*(due & known.keys()), *unseen):
            if key not in self._tasks and (key in due or len(self._tasks) < MOST_AT_ONCE):
                serve = self._serve(known[key], nudge, is_due=key in due)
                task = self._tasks[key] = asyncio.create_task(serve, name=f"alerts of {key}")
                task.add_done_callback(partial(self._served, key))

    def _served(self, key: AgentKey, _: asyncio.Task[None]) -> None:
        del self._tasks[key]

    def _is_to_be_looked_at(self, key: AgentKey, ref: SecretKeyRef, now: datetime) -> bool:
        at, which = self._looked.get(key, (None, None))
        known = self._standing.get(key)
        every = LOOK_AGAIN_EVERY if known is not None and known.problem is not None else LOOK_AT_SECRET_EVERY
        return at is None or which != ref or not timedelta(0) <= now - at < every

    async def _serve(self, to: Addressed, nudge: Callable[[AgentKey], None], *, is_due: bool) -> None:
        async with self._at_once:
            if not self._is_closing:
                await self._serve_now(to, nudge, is_due=is_due)

    async def _serve_now(self, to: Addressed, nudge: Callable[[AgentKey], None], *, is_due: bool) -> None:
        """Everything that can go wrong ends here."""
        before = self._standing.get(to.key)
        try:
            if to.ref is None:
                await self._outbox.unwanted(to.key)
            elif not is_due:
                await self._look(to, to.ref)
            elif (standing := await self._deliver(to, to.ref)) is not None:
                self._standing[to.key] = standing
                self._looked[to.key] = self._now(), to.ref
        except LeaseLost as error:
            log.warning("%s: %s", to.key, error)
        except TryLater as error:
            log.warning("%s: alerts are not told outside now, but soon: %s", to.key, error)
        except Exception:
            log.exception("%s: alerts are not told outside now; it is tried again", to.key)
        if self._standing.get(to.key) != before:
            nudge(to.key)

    async def _look(self, to: Addressed, ref: SecretKeyRef) -> None:
        """Say what is wrong with the Secret before the first alert needs it."""
        problem = None
        try:
            await self._deliver.check(to, ref)
        except BadResource as error:
            problem = Finding(error.condition, "False", error.reason, str(error))
        except TryLater as error:
            problem = Finding("AlertsDelivered", "False", "NotReachable", f"{error}; it is looked at again")
        self._looked[to.key] = self._now(), ref
        known = self._standing.get(to.key)
        if problem is None and known is not None and known.problem is not None and known.problem.reason in LOST:
            return
        self._standing[to.key] = Standing(problem, was_sent=False)
