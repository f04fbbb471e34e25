"""The list of machines, read to the end and proved complete.

A list that lost rows looks like a fleet that needs machines: the v0 endpoint's retirement, read as "no machines", kept
others buying. So whatever is not proved is `FleetUnreadable`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fleetagent.adapters.vast.answer import Answer
from fleetagent.adapters.vast.errors import Meaning, failure, meaning
from fleetagent.adapters.vast.pacing import Endpoint
from fleetagent.adapters.vast.parse import ident
from fleetagent.adapters.vast.wire import Call, Wire
from fleetagent.domain.model import JsonObject
from fleetagent.errors import FleetUnreadable, TryLater

PATH = "/api/v1/instances/"
PAGE_ROWS = 25
MAX_PAGES = 400
ORDER = json.dumps([{"col": "id", "dir": "asc"}], separators=(",", ":"))  # ids are unique, so pages can't overlap


class _Contradiction(FleetUnreadable):
    """The pages do not fit together, as when a machine came or went while they were read."""


async def all_rows(wire: Wire) -> tuple[JsonObject, ...]:
    """Every row of the account's list. `FleetUnreadable` when that is not certain; `BadResource` for a refused key."""
    try:
        return await _walk(wire)
    except _Contradiction:
        return await _walk(wire)


async def _walk(wire: Wire) -> tuple[JsonObject, ...]:
    rows: dict[str, JsonObject] = {}
    token: str | None = None
    followed: set[str] = set()
    for _ in range(MAX_PAGES):
        page = await _page(wire, token)
        rows |= page.rows
        if page.next_token is None:
            if len(rows) != page.total:
                raise _Contradiction(f"the list says {page.total} machines and shows {len(rows)}")
            return tuple(rows.values())
        if not page.rows or page.next_token in followed:
            raise FleetUnreadable("the list of machines does not come to an end")
        token = page.next_token
        followed.add(token)
    raise FleetUnreadable(f"the list of machines has more than {MAX_PAGES} pages")


@dataclass(frozen=True, slots=True)
class _Page:
    rows: Mapping[str, JsonObject]
    total: int
    next_token: str | None


def _page_in(answer: Answer) -> _Page:
    fields = answer.fields
    rows, here, total = fields.get("instances"), fields.get("instances_found"), fields.get("total_instances")
    next_token = fields.get("next_token")
    if fields.get("success") is not True or not isinstance(rows, list):
        raise FleetUnreadable(f"the list of machines has not the shape of one ({answer.said})")
    if isinstance(total, bool) or not isinstance(total, int) or not isinstance(next_token, str | None):
        raise FleetUnreadable(f"the list of machines does not say how long it is ({answer.said})")
    by_id = {ident(row.get("id")): row for row in rows if isinstance(row, dict)}
    if None in by_id or len(by_id) != len(rows):
        raise FleetUnreadable("the list of machines has a row without an id of its own")  # it can be any of ours
    if here is not None and here != len(rows):
        raise _Contradiction(f"a page of the list says {here} machines and shows {len(rows)}")
    return _Page({str(key): row for key, row in by_id.items()}, total, next_token or None)


async def _page(wire: Wire, token: str | None) -> _Page:
    query = {"limit": str(PAGE_ROWS), "order_by": ORDER, **({"after_token": token} if token else {})}
    try:
        answer = await wire.read(Call("GET", PATH, Endpoint.LIST, query))
        if meaning(answer) is not Meaning.FINE:
            raise failure(answer)
    except TryLater as error:
        message = f"the list of machines can't be read: {error}"
        raise FleetUnreadable(message, retry_after_seconds=error.retry_after_seconds) from error
    return _page_in(answer)
