"""Owning an agent for as long as something takes: the lease is renewed beside it, and losing it ends the work."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

from fleetagent.domain.records import Lease
from fleetagent.errors import LeaseLost, TryLater
from fleetagent.ports import Agents

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def kept(agents: Agents, lease: Lease, every: timedelta) -> AsyncIterator[None]:
    """Renew by a task of its own, however long a call in the block takes; `LeaseLost` when another took over."""
    body = asyncio.current_task()
    asked_before = body.cancelling() if body is not None else 0
    lost: list[LeaseLost] = []

    async def renew() -> None:
        while True:
            await asyncio.sleep(every.total_seconds())
            try:
                await agents.renew(lease)
            except TryLater as error:
                log.warning("lease of agent %s could not be renewed: %s", lease.agent_id, error)
            except LeaseLost as error:
                lost.append(error)
                if body is not None:
                    body.cancel()
                return

    task = asyncio.create_task(renew())
    try:
        yield
        if lost:
            await asyncio.sleep(0)  # the request to end is still on its way: it must not reach what comes after us
    except asyncio.CancelledError:
        # One of the requests was ours, and its reason is told as an error; any other is somebody who wants us to end.
        if lost and (body is None or body.uncancel() <= asked_before):
            raise lost[0] from None
        raise
    finally:
        task.cancel()
