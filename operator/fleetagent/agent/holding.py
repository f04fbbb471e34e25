"""Whether an agent is this process's to keep: counted and told when that changes."""

import logging
from collections.abc import Mapping

from fleetagent.domain.records import AgentKey
from fleetagent.ports import Meter
from fleetagent.ports.telemetry import LeaseChange

log = logging.getLogger(__name__)

WORDS: Mapping[LeaseChange, str] = {
    "Taken": "kept by this process from now on",
    "Lost": "kept by another process now, or by none",
    "HandedOver": "let go of, for whoever takes it next",
}


class Holding:
    """Between two looks the lease is free for others, and the agent stays ours until one of them takes it."""

    def __init__(self, key: AgentKey, meter: Meter) -> None:
        self._key = key
        self._meter = meter
        self._is_ours = False

    def taken(self) -> None:
        """The lease was got."""
        if not self._is_ours:
            self._changed("Taken")

    def lost(self) -> None:
        """It was not got, or is held no more."""
        if self._is_ours:
            self._changed("Lost")
        else:  # a run that ended since, or a look that failed, may have told of it once more
            self._meter.forget(self._key)

    def handed_over(self) -> None:
        """It was given back for good."""
        if self._is_ours:
            self._changed("HandedOver")

    def _changed(self, change: LeaseChange) -> None:
        self._is_ours = change == "Taken"
        self._meter.lease(change)
        if not self._is_ours:
            self._meter.forget(self._key)  # whoever keeps it now tells of it
        log.info("%s: %s", self._key, WORDS[change], extra={"lease": change})
