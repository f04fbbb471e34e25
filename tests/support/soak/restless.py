"""People who never let their agents alone: a target changed or a run asked for, every second, while replicas die."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from support.stage import Stage
from support.steering import patch_quickly, request_quickly

BETWEEN_S = 1.0
TARGETS = (20, 60, 120)
"""Proofs per hour: one machine, a few more, more still."""


@dataclass(slots=True)
class Restless:
    """Works until it is told to end; remembers the last request of each agent."""

    stage: Stage
    names: tuple[str, ...]
    seed: int
    asked: dict[str, str] = field(default_factory=dict)
    changes: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Iterator["Restless"]:
        """Until the block ends."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def unserved(self) -> list[str]:
        """Agents whose last request no status shows as served."""
        return [name for name, value in self.asked.items() if _handled(self.stage.resource(name)) != value]

    def _work(self) -> None:
        chance = random.Random(self.seed)  # noqa: S311  # the same seed, the same soak
        while self.names and not self._over.wait(BETWEEN_S):
            name = chance.choice(self.names)
            self.changes += 1
            if chance.random() < 0.5:
                patch_quickly(self.stage, {"spec": {"target": {"proofsPerHour": chance.choice(TARGETS)}}}, name)
            else:
                value = f"request {self.changes}"
                request_quickly(self.stage, value, name)
                self.asked[name] = value


def _handled(resource: dict[str, object]) -> object:
    status = resource.get("status")
    return status.get("lastHandledRequest") if isinstance(status, dict) else None
