"""The v1 listing: filters and order on stored columns, pages of at most 25, an opaque token. Pure."""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from fleetagent.sim.marketplace.errors import Refused, invalid_request
from fleetagent.sim.marketplace.offers import Row
from fleetagent.sim.marketplace.search import check_condition, compare, matches, ordered

LARGEST_PAGE, SMALL_PAGE = 25, 5

STORED = frozenset(
    {
        "id",
        "label",
        "actual_status",
        "intended_status",
        "cur_state",
        "gpu_name",
        "verification",
        "machine_id",
        "host_id",
        "image_uuid",
        "start_date",
        "end_date",
        "country_code",
    }
)
"""Computed columns, such as `dph_total` and `num_gpus`, neither filter nor order."""

Order = tuple[tuple[str, bool], ...]


def page(rows: list[Row], params: Mapping[str, str]) -> dict[str, Any]:
    """One page of these rows, as the query parameters ask for it."""
    order = _order(_json(params, "order_by", []))
    conditions = _json(params, "select_filters", {})
    _check_filters(conditions)
    found = ordered([row for row in rows if matches(row, conditions)], order)
    start = _start(found, order, params.get("after_token"))
    limit = _limit(params.get("limit"))
    shown = found[start : start + limit]
    more = start + limit < len(found)
    return {
        "success": True,
        "instances_found": len(shown),
        "total_instances": len(found),
        "label_counts": dict(Counter(row["label"] or "" for row in found)),
        "next_token": _token(shown[-1], order) if more else None,
        "instances": [_selected(row, _json(params, "select_cols", ["*"])) for row in shown],
    }


def _json(params: Mapping[str, str], name: str, default: Any) -> Any:
    text = params.get(name)
    if text is None:
        return default
    try:
        value = json.loads(text)
    except ValueError:
        raise invalid_request(f"{name} is not JSON") from None
    if not isinstance(value, type(default)):
        raise invalid_request(f"{name} must be a JSON {'list' if isinstance(default, list) else 'object'}")
    return value


def _limit(text: str | None) -> int:
    if text is None:
        return LARGEST_PAGE
    try:
        limit = int(text)
    except ValueError:
        raise invalid_request("limit must be an integer") from None
    return min(limit, LARGEST_PAGE) if limit > 0 else SMALL_PAGE


def _order(wanted: list[Any]) -> Order:
    order: list[tuple[str, bool]] = []
    for each in wanted:
        match each:
            case {"col": str(column), "dir": "asc" | "desc" as direction} if column in STORED:
                order.append((column, direction == "desc"))
            case _:
                raise invalid_request(f"cannot order by {each}")
    return (*order, ("id", False))


def _check_filters(conditions: dict[str, Any]) -> None:
    for column, condition in conditions.items():
        if column not in STORED:
            raise invalid_request(f"cannot filter by {column}")
        try:
            check_condition(column, condition)
        except Refused as refusal:
            raise invalid_request(str(refusal.body["msg"])) from refusal


def _token(last: Row, order: Order) -> str:
    """The sort values of the last row: a machine that comes or goes between two pages doesn't shift the next one."""
    return base64.urlsafe_b64encode(json.dumps({name: last[name] for name, _ in order}).encode()).decode()


def _start(found: list[Row], order: Order, token: str | None) -> int:
    if not token:
        return 0
    try:
        last = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise Refused(400, "invalid_token", "after_token is not valid") from None
    if not isinstance(last, dict) or set(last) != {name for name, _ in order}:
        raise Refused(400, "invalid_token", "after_token belongs to another order")
    return next((n for n, row in enumerate(found) if compare(row, last, order) > 0), len(found))


def _selected(row: Row, columns: list[Any]) -> Row:
    return row if "*" in columns else {str(name): row.get(str(name)) for name in columns}
