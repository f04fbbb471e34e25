"""Faults on demand: named switches per call, for the next n calls or until cleared, read lags, and fields that lie.

The shape of `PUT /_sim/faults` (it replaces everything) and of a `--faults` file:

    {"list":   {"kind": "half_page", "times": 2},
     "create": [{"kind": "created_then_504", "times": 1}, {"kind": "slow"}],
     "search": "http_500",
     "read_lag": {"create_seconds": 3, "destroy_seconds": 3, "label_seconds": 10},
     "rows": {"offers": {"geolocation": null}, "instances": {"colour": "red"}}}

A bare name stays on until cleared; of several switches the first that applies is taken. Seconds are seconds of the wall
clock, unless a kind says otherwise.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from fleetagent.sim.marketplace.draws import Draws
from fleetagent.sim.marketplace.kinds import KINDS


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Switch(_Strict):
    """One fault of one call."""

    kind: str
    times: int | None = Field(default=None, ge=1)
    """How many calls it spoils. None: until cleared."""
    skip: int = Field(default=0, ge=0)
    """How many calls pass first."""
    every: int = Field(default=1, ge=1)
    """It spoils each n-th call only."""
    for_seconds: float | None = Field(default=None, gt=0)
    """It ends so long after it was set."""
    seconds: float | None = Field(default=None, ge=0)
    """How long an answer is held back, or an effect is late."""
    retry_after_seconds: int | None = Field(default=None, ge=0)
    """What a 429 asks for; None: it does not say."""
    _met: int = PrivateAttr(default=0)

    def meets(self, *, on_for_seconds: float) -> bool:
        """Whether it spoils this call; counts it."""
        if self.for_seconds is not None and on_for_seconds >= self.for_seconds:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self._met += 1
        return self._met % self.every == 0


class ReadLag(_Strict):
    """Wall seconds until reads show what a write has done."""

    create_seconds: float = Field(default=0.0, ge=0)
    destroy_seconds: float = Field(default=0.0, ge=0)
    label_seconds: float = Field(default=0.0, ge=0)


class Rows(_Strict):
    """Fields that every row shows instead of the truth; filters still see the truth."""

    offers: dict[str, Any] = {}
    instances: dict[str, Any] = {}


class Faults(_Strict):
    """Every switch, by call."""

    search: list[Switch] = []
    create: list[Switch] = []
    list_: list[Switch] = Field(default=[], alias="list")
    show: list[Switch] = []
    update: list[Switch] = []
    destroy: list[Switch] = []
    destroy_many: list[Switch] = []
    reboot: list[Switch] = []
    logs: list[Switch] = []
    price_rises: list[Switch] = []
    price_answer: list[Switch] = []
    account: list[Switch] = []
    worker: list[Switch] = []
    read_lag: ReadLag = ReadLag()
    rows: Rows = Rows()

    @field_validator(*(name if name != "list" else "list_" for name in KINDS), mode="before")
    @classmethod
    def _short_forms(cls, value: object) -> object:
        return [
            {"kind": each} if isinstance(each, str) else each
            for each in (value if isinstance(value, list) else [value])
        ]

    @model_validator(mode="after")
    def _kinds_exist(self) -> Self:
        for call, kinds in KINDS.items():
            for switch in self.of(call):
                if switch.kind not in kinds:
                    raise ValueError(f"{call} knows no fault {switch.kind!r}; it knows {', '.join(sorted(kinds))}")
        return self

    def of(self, call: str) -> list[Switch]:
        """The switches of one call, in order."""
        switches: list[Switch] = getattr(self, "list_" if call == "list" else call)
        return switches


class FaultBoard:
    """The switches as they stand now; taking one uses it up. Unreliable markets also fail by chance."""

    def __init__(
        self,
        draws: Draws,
        *,
        reliable: bool,
        initial: Mapping[str, object] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._draws = draws
        self._reliable = reliable
        self._wall = wall
        self._set_at = wall()
        self._calls: dict[str, int] = {}
        self.faults = Faults()
        self.replace(initial or {})

    @property
    def lag(self) -> ReadLag:
        """The read lags that apply to the next writes."""
        return self.faults.read_lag

    def replace(self, wanted: Mapping[str, object] | Faults) -> None:
        """Set exactly these faults; a bad description changes nothing and raises pydantic's ValidationError."""
        self.faults = wanted if isinstance(wanted, Faults) else Faults.model_validate(dict(wanted))
        self._set_at = self._wall()

    def shown(self) -> dict[str, Any]:
        """What is still on."""
        return self.faults.model_dump(by_alias=True)

    def take(self, call: str) -> Switch | None:
        """The fault of this call, if it has one; the retired listing has none."""
        if call not in KINDS:
            return None
        number = self._calls[call] = self._calls.get(call, 0) + 1
        switches = self.faults.of(call)
        for switch in list(switches):
            if not switch.meets(on_for_seconds=self._wall() - self._set_at):
                continue
            if switch.times is not None:
                switch.times -= 1
                if not switch.times:
                    switches.remove(switch)
            return switch
        return None if self._reliable or call == "worker" else self._by_chance(call, number)

    def _by_chance(self, call: str, number: int) -> Switch | None:
        chance = self._draws.of("api", call, number).random()
        if chance < 0.01:
            return Switch(kind="http_500")
        return Switch(kind="html") if chance < 0.015 else None
