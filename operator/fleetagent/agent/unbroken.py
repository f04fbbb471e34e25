"""An effect that has begun is recorded, whatever cancels the run."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T], *, on_cancel: Callable[[], object] = lambda: None) -> T:
    """Run to the end however often the caller is cancelled; the cancellation goes on afterwards.

    `on_cancel` tells the work that nobody wants it any more, so that it need not begin what has not begun.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
    if cancelled is not None:
        if not task.cancelled() and (failed := task.exception()) is not None:
            raise asyncio.CancelledError(f"cancelled; the effect ended with {failed!r}") from failed
        raise cancelled
    return task.result()
