"""How long the past is kept: which tables hold it, and from which moment on each is too old."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from fleetagent.domain.resource import Retention


class Past(StrEnum):
    """What is pruned, in this order: what others hold on to comes after those. The bill by day is never pruned."""

    MESSAGES = "messages"
    COMPACTIONS = "compactions"
    INSTANCES = "instances"
    RUNS = "runs"
    ACTIONS = "actions"
    WAKES = "wakes"
    TRIGGERS = "triggers"
    ALERTS = "alerts"
    SAMPLES = "samples"
    SESSIONS = "sessions"


CONVERSATION = frozenset({Past.MESSAGES, Past.COMPACTIONS})
"""What `spec.retention.messages` is about; the rest goes by `spec.retention.runs`."""


def too_old_before(retention: Retention, what: Past, now: datetime) -> datetime:
    """What happened earlier need not be kept any longer."""
    return now - (retention.messages if what in CONVERSATION else retention.runs)


Place: TypeAlias = tuple[Any, ...]
"""Where a table was left off, in the words of whoever keeps it; `()` is its beginning."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A part of a table that was looked at, oldest rows first; `after` is where to go on, None at the end."""

    deleted: int
    after: Place | None


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows, as the database estimates them, and bytes with indexes."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a pass deleted, and what the tables of all agents hold since."""

    deleted: Mapping[Past, int] = field(default_factory=dict)
    sizes: Mapping[str, TableSize] = field(default_factory=dict)
    complete: bool = False
    """Nothing too old is left; otherwise the pass ended early."""

    @property
    def words(self) -> str:
        """For the log."""
        gone = ", ".join(f"{count:,} {what}" for what, count in self.deleted.items() if count) or "nothing"
        rows, size = sum(s.rows for s in self.sizes.values()), sum(s.bytes for s in self.sizes.values())
        largest = sorted(self.sizes.items(), key=lambda item: -item[1].bytes)[:3]
        parts = ", ".join(f"{name} {s.rows:,} rows {_megabytes(s.bytes)}" for name, s in largest)
        rest = "" if self.complete else "; more is left for the next time"
        return f"pruned {gone}{rest}; the tables hold about {rows:,} rows in {_megabytes(size)} ({parts})"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
