"""Deletes what is older than `spec.retention`, a little at a time, so that no run is ever later for it."""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from fleetagent.agent.clock import Now
from fleetagent.domain.records import AgentKey, Lease
from fleetagent.domain.resource import Retention
from fleetagent.domain.retention import Past, Place, Pruned, too_old_before
from fleetagent.ports import Audit

log = logging.getLogger(__name__)

PRUNE_EVERY = timedelta(hours=1)
PACE = timedelta(seconds=1)
"""Between two agents: after a start all of them are due at once, and nobody is waiting for it."""
MOST_BATCHES = 40
"""In one pass, each of at most 1,000 rows: more than the busiest agent leaves behind in an hour."""


class Pruning:
    """Passes over the past of each agent, an hour apart."""

    def __init__(self, audit: Audit, now: Now) -> None:
        self._audit = audit
        self._now = now
        self._done_at: dict[AgentKey, datetime] = {}
        self._begun_at: datetime | None = None

    async def __call__(
        self, key: AgentKey, lease: Lease, retention: Retention, *, busy: Callable[[], bool]
    ) -> Pruned | None:
        """Delete in short transactions until nothing too old is left, `busy` says so, or it was enough for one pass.

        None within an hour of the last pass; one that gave way is made up for. `LeaseLost` as soon as another process
        owns the agent. The log tells what was deleted and what there is.
        """
        now, done_at = self._now(), self._done_at.get(key)
        if done_at is not None and now - done_at < PRUNE_EVERY:
            return None
        if self._begun_at is not None and timedelta(0) <= now - self._begun_at < PACE:
            return None
        self._begun_at = now
        deleted: Counter[Past] = Counter()
        complete = await self._delete(lease, retention, deleted, busy)
        pruned = Pruned(deleted, await self._audit.sizes(), complete)
        log.info("%s: %s", key, pruned.words)
        if complete or not busy():
            self._done_at[key] = now
        return pruned

    async def _delete(
        self, lease: Lease, retention: Retention, deleted: Counter[Past], busy: Callable[[], bool]
    ) -> bool:
        """Whether all tables were done."""
        now, batches = self._now(), 0
        for what in Past:
            place: Place | None = ()
            while place is not None:
                if busy() or batches >= MOST_BATCHES:
                    return False
                batch = await self._audit.prune(lease, what, too_old_before(retention, what, now), place)
                deleted[what] += batch.deleted
                place = batch.after
                batches += 1
        return True
