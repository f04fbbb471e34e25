"""So many at a time, and the next one as soon as somebody takes long."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

LONGEST_TURN_SECONDS = 0.25


@contextlib.asynccontextmanager
async def in_turn(
    gate: asyncio.Semaphore, longest_seconds: float = LONGEST_TURN_SECONDS
) -> AsyncIterator[Callable[[], None]]:
    """Pass the gate, and let the next one pass at the end of the block, or sooner: by a call, or if this takes long.

    A market that does not answer holds up whoever looks at it, and nobody else.
    """
    await gate.acquire()
    is_open = False

    def let_the_next_pass() -> None:
        nonlocal is_open
        if not is_open:
            is_open = True
            gate.release()

    timer = asyncio.get_running_loop().call_later(longest_seconds, let_the_next_pass)
    try:
        yield let_the_next_pass
    finally:
        timer.cancel()
        let_the_next_pass()
