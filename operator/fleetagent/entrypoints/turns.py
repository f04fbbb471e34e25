"""Whose turn it is: of several replicas kopf's peering lets one work, and pauses the others."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from kopf._cogs.structs.references import Insights
from kopf._core.engines.daemons import DaemonsMemory
from kopf._core.reactor.inventory import ResourceMemories

Steady = Callable[[], float]
FORMER_GROUP = "zalando.org"
PAUSE_ECHOES_S = 5.0
"""For how long after its last sign a pause is taken to go on: kopf gives one a second, a busy process fewer."""


class Turns(ResourceMemories):
    """What kopf remembers of the resources that it watches. By this it also tells us of its pauses.

    kopf pauses without a word to those who run in it. But it ends the timers of all that it remembers when a pause
    begins, and once a second while one goes on, for the sake of resources that are still on their way to it. Each time
    it asks here which there are, and nobody else does, except its end. (kopf 1.45: `daemons.daemon_killer`.)
    """

    def __init__(self, let_go: Callable[[], Awaitable[None]], steady: Steady = time.monotonic) -> None:
        super().__init__()
        self._let_go = let_go
        self._steady = steady
        self._paused_at = steady()  # kopf begins with a pause, until it has seen who else is there
        self._letting_go: asyncio.Future[None] | None = None

    @property
    def active(self) -> bool:
        """Whether this process may work. It is no lock: that is the lease."""
        return self._steady() - self._paused_at > PAUSE_ECHOES_S

    def iter_all_daemon_memories(self) -> Iterator[DaemonsMemory]:
        """Whose timers kopf ends now. What we keep ends too."""
        self._paused_at = self._steady()
        if self._letting_go is None or self._letting_go.done():
            self._letting_go = asyncio.ensure_future(self._let_go())
        return super().iter_all_daemon_memories()


def insights() -> Insights:
    """What kopf looks for in the cluster, without the kinds that its peering had years ago.

    Where these are still defined kopf would want to be alone there too, in an object that nobody makes, and wait.
    (kopf 1.45: `peering.guess_selectors` names the kinds of both groups.)
    """
    found = Insights()
    found.backbone.selectors = [s for s in found.backbone.selectors if s.group != FORMER_GROUP]
    return found
