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
    except asyncio.CancelledError:
        if lost:
            if body is not None:
                body.uncancel()  # it was us who cancelled, and the reason is told as an error of its own
            raise lost[0] from None
        raise
    finally:
        task.cancel()
