"""What was last written to the status of one resource, so that it is written again when it must be, and only then."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fleetagent.domain.resource import readable_status

Patch = Mapping[str, Any]

LONGEST_LAG = timedelta(seconds=30)
"""Of a watch: what it shows after that is what stands there. Writing the same once more changes nothing."""

BILL_EVERY = timedelta(hours=1)
"""How old the day's bill may be in the status of an agent of which nothing else changes."""

DRIFTING = {"WithinBudget": ("True", "False"), "CreditLasts": ("True", "False"), "DemandKnown": ("True",)}
"""Conditions whose words name the day's bill, the credit that it leaves, or a queue: they are others at every look."""


@dataclass(slots=True)
class Written:
    """The last write of this process: its patch, what came of it, and what had stood there before.

    The times of looks are left out: a new `observedAt` alone is no change.
    """

    patch: Patch | None = None
    kept: Patch | None = None
    """What the API server made of the patch: less, where its definition of the resource is older than we are."""
    over: Patch | None = None
    """What stood there before; None once the watch has shown what was kept."""

    excused_until: datetime | None = None
    bill_until: datetime | None = None
    """Until then the day's bill alone, rising with every minute of a fleet, is no change, and no drifting words are."""

    def stands(self, patch: Patch, status: Patch, now: datetime) -> bool:
        """Whether writing `patch` would change nothing, as far as a watch that may lag behind tells by `status`."""
        wanted, stored = _compared(patch), _of(status, patch)
        if self.patch is None and wanted == stored:  # another process wrote it: from now on it is as good as ours
            self.patch, self.kept, self.bill_until = wanted, stored, now + BILL_EVERY
        if self.patch is None or self.patch.keys() != wanted.keys():
            return wanted == stored
        if stored == self.kept:
            self.over = None
        lags = stored == self.over and self.excused_until is not None and now < self.excused_until
        if self.bill_until is not None and now < self.bill_until:
            wanted = _without_drift(wanted, self.patch)
        return wanted == self.patch and (stored == self.kept or lags)  # else somebody has written since

    def shows(self, status: Patch) -> bool:
        """Whether this stored status is what came of the last write."""
        return self.kept is not None and _of(as_patch(status), self.kept) == self.kept

    def note(self, patch: Patch, status: Patch, came_back: Patch | None, now: datetime) -> None:
        """`patch` was written where the watch had shown `status`; None came back of a resource that is gone."""
        self.excused_until, self.bill_until = now + LONGEST_LAG, now + BILL_EVERY
        self.patch, self.over = _compared(patch), _of(status, patch)
        self.kept = self.patch if came_back is None else _of(as_patch(came_back), patch)


def as_patch(status: Patch) -> Patch:
    """A stored status as the patch that would write it."""
    return readable_status(status).to_merge_patch()


def _of(status: Patch, patch: Patch) -> Patch:
    return _compared({name: status[name] for name in patch})


def _without_drift(wanted: Patch, before: Patch) -> Patch:
    """As it would be had the figures stood still that move with every look."""
    said = {c["type"]: c for c in before.get("conditions") or ()}

    def spared(condition: Patch) -> Patch:
        then = said.get(condition["type"], {})
        drifts = condition["status"] in DRIFTING.get(condition["type"], ())
        return {**condition, "message": then["message"]} if drifts and then else condition

    conditions = {"conditions": [spared(c) for c in wanted["conditions"]]} if wanted.get("conditions") else {}
    return {**wanted, **conditions, **({"spend": before.get("spend")} if "spend" in wanted else {})}


def _compared(patch: Patch) -> Patch:
    if not patch.get("fleet"):
        return patch
    return {**patch, "fleet": {name: value for name, value in patch["fleet"].items() if name != "observedAt"}}
