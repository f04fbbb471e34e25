"""What this process has learnt of the model servers that it talks to; a restart forgets it."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from fleetagent.adapters.model.gate import Gate
from fleetagent.adapters.model.payload import Habits
from fleetagent.adapters.model.sizes import Sizes

ENDPOINTS_REMEMBERED = 2_000
Learnt = TypeVar("Learnt")


class Endpoints:
    """Hands out the one `Habits` and `Sizes` of an endpoint and model, and the one `Gate` of an endpoint and key.

    Bounded: what was not asked for the longest is forgotten, and learnt again when it is needed.
    """

    def __init__(self, most: int = ENDPOINTS_REMEMBERED) -> None:
        self._most = most
        self._habits: OrderedDict[Hashable, Habits] = OrderedDict()
        self._sizes: OrderedDict[Hashable, Sizes] = OrderedDict()
        self._gates: OrderedDict[Hashable, Gate] = OrderedDict()

    def habits(self, base_url: str, model: str) -> Habits:
        """What this server refuses when it serves this model, whoever asks."""
        return self._of(self._habits, (_same(base_url), model), Habits)

    def sizes(self, base_url: str, model: str) -> Sizes:
        """What this server has said of its window and its counter."""
        return self._of(self._sizes, (_same(base_url), model), Sizes)

    def gate(self, base_url: str, api_key: str | None) -> Gate:
        """When this server may be asked with this key: its limits hold for each key. The key itself is not kept."""
        return self._of(self._gates, (_same(base_url), hashlib.sha256((api_key or "").encode()).digest()), Gate)

    def _of(self, known: OrderedDict[Hashable, Learnt], key: Hashable, new: Callable[[], Learnt]) -> Learnt:
        found = known.pop(key, None)
        known[key] = new() if found is None else found
        while len(known) > self._most:
            known.popitem(last=False)
        return known[key]


def _same(base_url: str) -> str:
    return base_url.strip().rstrip("/")
