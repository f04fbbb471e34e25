"""The query language of the market: `{"field": {"op": value}}`, plus order and limit. Pure."""

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from fleetagent.sim.marketplace.errors import invalid_args
from fleetagent.sim.marketplace.offers import Row

CAP = 64
"""No search returns more, whatever `limit` says."""

ON_DEMAND = ("ondemand", "on-demand")
TYPES = (*ON_DEMAND, "bid", "reserved")
DEFAULT_DISK_GB = 8.0

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "neq": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "in": lambda have, wanted: have in wanted,
    "notin": lambda have, wanted: have not in wanted,
}

WITHOUT_EFFECT = frozenset({"disable_bundling"})
"""What the official client may send, and the market no longer heeds."""

Condition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A search, read from its body."""

    conditions: Mapping[str, Condition]
    order: tuple[tuple[str, bool], ...]
    """Field, and whether it descends."""
    limit: int
    disk_gb: float
    bid: bool

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """Refuse what the market would not understand, instead of answering with everything."""
        fields = {name: value for name, value in body.items() if name not in WITHOUT_EFFECT}
        kind = fields.pop("type", "on-demand")
        if kind not in TYPES:
            raise invalid_args(f"type must be one of {', '.join(TYPES)}")
        limit = fields.pop("limit", CAP)
        if not isinstance(limit, int) or limit < 1:
            raise invalid_args("limit must be a positive integer")
        disk_gb = fields.pop("allocated_storage", DEFAULT_DISK_GB)
        if isinstance(disk_gb, bool) or not isinstance(disk_gb, int | float) or disk_gb < 0:
            raise invalid_args("allocated_storage must be a number of GB")
        order = tuple(_order(each) for each in fields.pop("order", [["score", "desc"]]))
        for name, condition in fields.items():
            check_condition(name, condition)
        return cls(fields, order, min(limit, CAP), float(disk_gb), kind == "bid")

    def run(self, rows: Iterable[Row], *, filtered: bool = True) -> list[Row]:
        """The matching rows in order. `filtered=False` is a fault of the market: it has forgotten every condition."""
        found = [row for row in rows if not filtered or matches(_filterable(row), self.conditions)]
        return ordered(found, (*self.order, ("machine_id", False)))[: self.limit]


def check_condition(name: str, condition: object) -> None:
    """Refuse anything but `{"op": value}` with operators that exist."""
    if not isinstance(condition, dict) or not condition:
        raise invalid_args(f'{name} must be an object like {{"gte": 1}}')
    for op, wanted in condition.items():
        if op not in OPERATORS:
            raise invalid_args(f"{name}: unknown operator {op}")
        if op in {"in", "notin"} and not isinstance(wanted, list):
            raise invalid_args(f"{name}: {op} takes a list")


def matches(row: Row, conditions: Mapping[str, Condition]) -> bool:
    """Whether every condition holds; a field that is null or unknown meets none but a negative one."""
    return all(_holds(row.get(name), op, wanted) for name, each in conditions.items() for op, wanted in each.items())


def ordered(rows: list[Row], order: Sequence[tuple[str, bool]]) -> list[Row]:
    """Sort by several fields; nulls come first in ascending order."""

    def by_order(one: Row, other: Row) -> int:
        return compare(one, other, order)

    return sorted(rows, key=functools.cmp_to_key(by_order))


def compare(one: Row, other: Row, order: Sequence[tuple[str, bool]]) -> int:
    """Negative when `one` comes before `other`."""
    for name, descends in order:
        left, right = _sortable(one.get(name)), _sortable(other.get(name))
        if left != right:
            before = left < right
            return -1 if before != descends else 1
    return 0


def _filterable(row: Row) -> Row:
    # `verified` exists in filters only; one on `id` matches nothing; one on the place takes the country.
    verified = row["verification"] == "verified"
    return row | {"verified": verified, "id": None, "geolocation": row["country_code"]}


def _holds(have: Any, op: str, wanted: Any) -> bool:
    if have is None:
        return op in {"neq", "notin"}
    try:
        return OPERATORS[op](have, _cast(wanted, have))
    except (TypeError, ValueError, KeyError):
        return False  # text against number: no match, as in a database


def _cast(wanted: Any, have: Any) -> Any:
    """The official client sends every number as text."""
    if isinstance(wanted, list):
        return [_cast(each, have) for each in wanted]
    if isinstance(have, bool) and isinstance(wanted, str):
        return {"true": True, "false": False}[wanted.lower()]
    return float(wanted) if isinstance(have, int | float) and isinstance(wanted, str) else wanted


def _sortable(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    return (2, value) if isinstance(value, str) else (1, value)


def _order(each: object) -> tuple[str, bool]:
    match each:
        case [str(name), "asc" | "desc" as direction]:
            return name, direction == "desc"
        case _:
            raise invalid_args('order must be a list of ["field", "asc" or "desc"]')
