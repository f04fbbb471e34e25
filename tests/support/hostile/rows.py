"""Rows of several agents' tables, in memory."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from fleetagent.domain.approval import Wish
from fleetagent.domain.fleet import LIVE, Instance, Phase, Waiting
from fleetagent.domain.records import ActionState
from fleetagent.domain.schedule import Wake


@dataclass
class Deed:
    """A row of `actions`."""

    id: int
    run_id: int
    kind: str
    by: str
    key: str
    state: ActionState
    label: str | None
    at: datetime
    args: Mapping[str, Any]
    error: str = ""
    wish: Wish | None = None
    expires_at: datetime | None = None
    approved: bool = False

    def waiting(self) -> Waiting:
        """As it waits for a person."""
        assert self.wish is not None
        assert self.expires_at is not None
        return Waiting(
            action_id=self.id,
            kind="launch" if self.kind == "launch" else "stop",
            run_id=self.run_id,
            by=self.by,
            intent_key=self.key,
            reason=str(self.args.get("reason", "")),
            what=self.wish.what,
            usd_per_hour=self.wish.usd_per_hour,
            proofs_per_hour=self.wish.proofs_per_hour,
            expires_at=self.expires_at,
            offer=self.wish.offer,
            label=self.wish.label,
            approved=self.approved,
        )


@dataclass
class Row:
    """A row of `instances`."""

    instance: Instance
    billed_until: datetime
    min_rate: int = 0
    deed: Deed | None = None
    token_hash: str | None = None
    timeline: list[tuple[str, datetime]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.timeline.append((self.instance.phase, self.instance.phase_since))

    def change(self, **values: Any) -> None:
        self.instance = replace(self.instance, **values)

    def usd(self, since: datetime, now: datetime) -> Decimal:
        """What it costs in this time."""
        return self.instance.usd_per_hour * Decimal(max((now - since).total_seconds(), 0)) / 3600

    def settle_launch(self, state: ActionState, error: str, *, given_up: bool = False) -> None:
        """An intent whose result nobody knew, or that was given up, has one now."""
        still_open = {ActionState.INTENDED, ActionState.UNKNOWN, *([ActionState.FAILED] if given_up else [])}
        if self.deed is not None and self.deed.state in still_open:
            self.deed.state = state
            self.deed.error = error if state is ActionState.FAILED else self.deed.error


@dataclass
class Host:
    """A row of `hosts`."""

    cpu_ram_gb: float | None = None
    rates: list[float] = field(default_factory=list)
    measured_at: datetime | None = None
    failures: int = 0
    failed_at: datetime | None = None
    excluded_until: datetime | None = None


@dataclass
class Book:
    """Everything of one agent."""

    token: int = 0
    runs: int = 0
    account: str | None = None
    machines_counted: int = 0
    live: dict[str, Row] = field(default_factory=dict)
    """By label."""
    ended: dict[str, Row] = field(default_factory=dict)
    deeds: list[Deed] = field(default_factory=list)
    """All but those that were refused outright."""
    keys: set[str] = field(default_factory=set)
    hosts: dict[tuple[str, str, int], Host] = field(default_factory=dict)
    fleet_usd: defaultdict[date, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    alerts: set[tuple[str, str]] = field(default_factory=set)
    wakes: dict[int, Wake] = field(default_factory=dict)

    def row(self, label: str) -> Row | None:
        return self.live.get(label) or self.ended.get(label)

    def row_of(self, action_id: int) -> Row | None:
        rows = (*self.live.values(), *self.ended.values())
        return next((r for r in rows if r.deed is not None and r.deed.id == action_id), None)

    def deed(self, action_id: int) -> Deed | None:
        return next((d for d in reversed(self.deeds) if d.id == action_id), None)

    def move(self, row: Row, phase: Phase, now: datetime, **more: Any) -> None:
        """Into another phase; what has ended is no live row any more."""
        label = row.instance.label
        row.change(phase=phase, phase_since=now, **more)
        row.timeline.append((phase, now))
        self.live.pop(label, None)
        self.ended.pop(label, None)
        (self.live if phase in LIVE else self.ended)[label] = row
