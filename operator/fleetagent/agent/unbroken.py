"""An effect that has begun is recorded, whatever cancels the run."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end even when the caller is cancelled; the cancellation goes on afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            raise asyncio.CancelledError(f"cancelled; the effect ended with {error!r}") from error
        raise
