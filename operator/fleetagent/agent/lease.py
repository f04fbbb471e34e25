"""Owning agents for as long as something takes: leases are renewed beside it, and losing one ends its work."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta

from fleetagent.domain.records import Lease
from fleetagent.errors import LeaseLost, TryLater
from fleetagent.ports import Leases

log = logging.getLogger(__name__)

SOON = 5
"""A renewal that did not succeed is tried again after this part of the usual time."""


@dataclass(eq=False, slots=True)
class _Work:
    """What somebody does under a lease."""

    lease: Lease
    body: "asyncio.Task[object] | None"
    lost: LeaseLost | None = None


class Ownership:
    """One for the process: all its leases are renewed together, so that a thousand cost one statement."""

    def __init__(self, leases: Leases, every: timedelta) -> None:
        self._leases = leases
        self._every_seconds = every.total_seconds()
        self._going_on: set[_Work] = set()
        self._renewing: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def kept(self, lease: Lease) -> AsyncIterator[None]:
        """Hold the lease, however long a call in the block takes; `LeaseLost` when another took over."""
        body = asyncio.current_task()
        asked_before = body.cancelling() if body is not None else 0
        work = _Work(lease, body)
        self._going_on.add(work)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(), name="renewal of leases", context=Context())
        try:
            yield
            if work.lost is not None:
                await asyncio.sleep(0)  # the request to end is still on its way: it must not reach what comes after us
        except asyncio.CancelledError:
            # One of the requests was ours, and is told as an error; any other is somebody who wants us to end.
            if work.lost is not None and (body is None or body.uncancel() <= asked_before):
                raise work.lost from None
            raise
        finally:
            self._going_on.discard(work)

    async def _renew(self) -> None:
        """Until no work goes on."""
        pause_seconds = self._every_seconds
        while self._going_on:
            await asyncio.sleep(pause_seconds)
            held = frozenset(work.lease for work in self._going_on)
            if not held:
                return
            pause_seconds = self._every_seconds / SOON
            try:
                renewed = await self._leases.renew(held)
            except TryLater as error:
                log.warning("%d leases could not be renewed: %s", len(held), error)
            except Exception:
                log.exception("%d leases could not be renewed; it is tried again", len(held))
            else:
                self._end(renewed.lost)
                if not renewed.later:
                    pause_seconds = self._every_seconds

    def _end(self, lost: frozenset[Lease]) -> None:
        for work in self._going_on:
            if work.lease in lost and work.lost is None:
                work.lost = LeaseLost("another process owns this agent now")
                if work.body is not None:
                    work.body.cancel()
