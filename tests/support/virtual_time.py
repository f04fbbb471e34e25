"""An event loop whose clock jumps: when nobody waits for a socket, the next timer is due at once.

While somebody does wait for one (a database over loopback), time stands still. So a week of a whole operator takes as
long as its work, without a line of it knowing, and what it does depends on no machine's speed.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST_ANSWER_S = 120.0
"""Of the real clock: a socket that says nothing for so long never will."""


class Stuck(Exception):  # noqa: N818  # what it is
    """Everything waits, and nothing could ever happen."""


class _Selector(selectors.DefaultSelector):
    """Waits for sockets in real time, and for nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.in_threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; else the clock jumps by `timeout`, which is when the next timer is due."""
        if timeout is not None and timeout <= 0:
            return super().select(0)
        for_real = timeout is None or self.in_threads or len(self.get_map()) > 1  # one is the loop's own pipe
        ready = super().select(LONGEST_ANSWER_S if for_real else 0)
        if for_real and not ready:
            raise Stuck(f"no timer is due, and no socket has said anything for {LONGEST_ANSWER_S:.0f} s")
        self.now_s += 0 if ready else timeout or 0
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` are seconds since the loop was made, virtual ones."""

    def __init__(self) -> None:
        self._own = _Selector()
        super().__init__(self._own)

    def time(self) -> float:
        """Virtual seconds."""
        return self._own.now_s

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        """A thread's work takes no virtual time."""
        self._own.in_threads += 1
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)

        def done(_: object) -> None:
            self._own.in_threads -= 1

        future.add_done_callback(done)
        return future


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """The result of `main`, which gets the loop that it runs in."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return runner.run(main(loop))


def calendar(loop: VirtualLoop, start: datetime) -> Callable[[], datetime]:
    """A clock that shows `start` when the loop begins."""
    return lambda: start + timedelta(seconds=loop.time())
