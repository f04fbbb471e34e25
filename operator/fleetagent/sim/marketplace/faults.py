"""Faults on demand: named switches per call, for the next n calls or until cleared, and read lags.

The shape of `PUT /_sim/faults` (it replaces everything) and of a `--faults` file:

    {"list":   {"kind": "half_page", "times": 2},
     "create": [{"kind": "created_then_504", "times": 1}, {"kind": "slow"}],
     "search": "http_500",
     "read_lag": {"create_seconds": 3, "destroy_seconds": 3, "label_seconds": 10}}

A bare name stays on until cleared; of several switches the first that has calls left is taken. `skip` lets so many
calls pass first. Seconds are seconds of the wall clock.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator

from fleetagent.sim.marketplace.draws import Draws

PLAIN = frozenset({"http_500", "http_401", "html", "empty_string", "empty_object", "rate_429", "timeout", "slow"})
"""Kinds that every call of the market knows. All but `slow` answer before anything happens."""

KINDS: Mapping[str, frozenset[str]] = {
    "search": PLAIN | {"ignores_filter", "no_offers"},
    "create": PLAIN
    | {
        "created_then_504",
        "created_then_reset",
        "created_then_no_id",
        "created_then_error_with_id",
        "no_such_ask_404",
        "no_such_ask_410",
        "no_such_ask_400",
        "insufficient_credit",
        "dearer",
    },
    "list": PLAIN | {"http_410", "deprecated_200", "null_instances", "half_page", "partial", "empty_list"},
    "show": PLAIN | {"null_instance"},
    "update": PLAIN | {"ignored"},
    "destroy": PLAIN | {"ignored", "destroyed_then_504"},
    "account": PLAIN | {"other_account"},
    "worker": frozenset({"silent", "weak", "repeats", "late"}),
}
"""What can go wrong with each call; `worker` is about the program of the next machines that boot."""


class Switch(BaseModel):
    """One fault of one call."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    times: int | None = Field(default=None, ge=1)
    """None: until cleared."""
    skip: int = Field(default=0, ge=0)
    seconds: float | None = Field(default=None, ge=0)
    """How long `slow` (30) and `timeout` (120) hold the answer back."""


class ReadLag(BaseModel):
    """Wall seconds until reads show what a write has done."""

    model_config = ConfigDict(extra="forbid")

    create_seconds: float = Field(default=0.0, ge=0)
    destroy_seconds: float = Field(default=0.0, ge=0)
    label_seconds: float = Field(default=0.0, ge=0)


class Faults(BaseModel):
    """Every switch, by call."""

    model_config = ConfigDict(extra="forbid")

    search: list[Switch] = []
    create: list[Switch] = []
    list_: list[Switch] = Field(default=[], alias="list")
    show: list[Switch] = []
    update: list[Switch] = []
    destroy: list[Switch] = []
    account: list[Switch] = []
    worker: list[Switch] = []
    read_lag: ReadLag = ReadLag()

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

    def __init__(self, draws: Draws, *, reliable: bool, initial: Mapping[str, object] | None = None) -> None:
        self._draws = draws
        self._reliable = reliable
        self._calls: dict[str, int] = {}
        self.faults = Faults()
        self.replace(initial or {})

    @property
    def lag(self) -> ReadLag:
        """The read lags that apply to the next writes."""
        return self.faults.read_lag

    def replace(self, wanted: Mapping[str, object]) -> None:
        """Set exactly these faults; a bad description changes nothing and raises pydantic's ValidationError."""
        self.faults = TypeAdapter(Faults).validate_python(dict(wanted))

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
            if switch.skip:
                switch.skip -= 1
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
