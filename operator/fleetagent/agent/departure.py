"""The end of one agent goes on although nobody calls for it: rights may go with a namespace, and machines bill on.

kopf calls for the next step, but not while it cannot write down that it has called: it then tries that for minutes.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from fleetagent.agent.deletion import Deletion

log = logging.getLogger(__name__)

SOONEST_S, LATEST_S, STEPS_AT_A_PACE = 3, 30, 20


def looks_again_after_s(steps: int) -> int:
    """A deletion may wait for hours, and kopf writes each step down: soon for a minute, then ever more seldom."""
    return min(SOONEST_S * (1 + steps // STEPS_AT_A_PACE), LATEST_S)


class Departure:
    """One deleted resource, until it is no more."""

    def __init__(
        self, deletion: Deletion, body: Mapping[str, Any], pace: Callable[[int], float] = looks_again_after_s
    ) -> None:
        self._deletion = deletion
        self._pace = pace
        self._body = body
        self._steps = 0
        self._over = False
        self._one_at_a_time = asyncio.Lock()
        self._stepped = asyncio.Event()
        self._task = asyncio.create_task(self._go_on(), name=f"end of {body['metadata']['name']}")

    async def step(self, body: Mapping[str, Any]) -> str | None:
        """None when nothing of it is left, else what keeps it."""
        async with self._one_at_a_time:
            if self._over:
                return None
            self._body, self._steps = body, self._steps + 1
            keeps = await self._deletion(body)
            self._over = keeps is None
            self._stepped.set()
            return keeps

    async def stop(self) -> None:
        """The resource is gone, or another process sees to it."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _go_on(self) -> None:
        while not self._over:
            self._stepped.clear()
            try:
                async with asyncio.timeout(2 * self._pace(self._steps)):
                    await self._stepped.wait()
            except TimeoutError:
                await self._step_uncalled()

    async def _step_uncalled(self) -> None:
        try:
            await self.step(self._body)
        except Exception:
            log.exception("a step of the deletion of %s failed; it is taken again", self._body["metadata"]["name"])
