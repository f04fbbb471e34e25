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
    """Hands out the one `Habits` and `Sizes` of an endpoint, key and model, and the one `Gate` of an endpoint and key.

    The key counts: a gateway may serve each from another place, and what a wrong key is told holds for nobody else.
    Bounded: what was not asked for the longest is forgotten, and learnt again when it is needed.
    """

    def __init__(self, most: int = ENDPOINTS_REMEMBERED) -> None:
        self._most = most
        self._habits: OrderedDict[Hashable, Habits] = OrderedDict()
        self._sizes: OrderedDict[Hashable, Sizes] = OrderedDict()
        self._gates: OrderedDict[Hashable, Gate] = OrderedDict()

    def habits(self, base_url: str, api_key: str | None, model: str) -> Habits:
        """What this server refuses when it serves this model."""
        return self._of(self._habits, (*_asked(base_url, api_key), model), Habits)

    def sizes(self, base_url: str, api_key: str | None, model: str) -> Sizes:
        """What this server has said of its window and its counter."""
        return self._of(self._sizes, (*_asked(base_url, api_key), model), Sizes)

    def gate(self, base_url: str, api_key: str | None) -> Gate:
        """When this server may be asked with this key: its limits hold for each key."""
        return self._of(self._gates, _asked(base_url, api_key), Gate)

    def _of(self, known: OrderedDict[Hashable, Learnt], key: Hashable, new: Callable[[], Learnt]) -> Learnt:
        found = known.pop(key, None)
        known[key] = new() if found is None else found
        while len(known) > self._most:
            known.popitem(last=False)
        return known[key]


def _asked(base_url: str, api_key: str | None) -> tuple[str, bytes]:
    """One spelling of a server, and a key that is not kept itself."""
    return base_url.strip().rstrip("/"), hashlib.sha256((api_key or "").encode()).digest()
