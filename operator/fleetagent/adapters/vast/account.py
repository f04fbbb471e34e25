"""What the market says of the account: whose it is, its credit, and the prices that hosts want to raise."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from fleetagent.adapters.vast.answer import Answer
from fleetagent.adapters.vast.errors import Meaning, failure, meaning
from fleetagent.adapters.vast.pacing import Endpoint
from fleetagent.adapters.vast.parse import balance, ident, number
from fleetagent.adapters.vast.wire import Call, Wire
from fleetagent.domain.account import Account, PriceRise
from fleetagent.domain.model import JsonObject
from fleetagent.errors import TryLater

ACCOUNT = "/api/v0/users/current/"
PRICE_RISES = "/api/v0/instances/pending-price-increases/"
SECONDS_PER_HOUR = 3600


async def read_account(wire: Wire) -> Account:
    """Id and credit in one look. `TryLater`, or `BadResource` for a key that is refused."""
    answer = await wire.read(Call("GET", ACCOUNT, Endpoint.ACCOUNT))
    if meaning(answer) is not Meaning.FINE:
        raise failure(answer)
    account_id = ident(answer.fields.get("id"))
    if account_id is None:
        raise TryLater(f"{answer.said}, without the account's id")
    return Account(account_id, balance(answer.fields.get("credit")))


async def read_price_rises(wire: Wire) -> tuple[PriceRise, ...] | None:
    """What hosts ask for; None when it can't be read: asked once, as nothing hangs on it now."""
    try:
        answer = await wire.once(Call("GET", PRICE_RISES, Endpoint.PRICE_RISES))
    except TryLater:
        return None
    return _rises_in(answer)


def _rises_in(answer: Answer) -> tuple[PriceRise, ...] | None:
    rows = answer.fields.get("pending_price_increases")
    if meaning(answer) is not Meaning.FINE or not isinstance(rows, list) or answer.fields.get("truncated") is True:
        return None
    return tuple(rise for row in rows if isinstance(row, dict) and (rise := _rise_in(row)))


def _rise_in(row: JsonObject) -> PriceRise | None:
    """Prices come for each second, those of storage for each GB of it."""
    provider_id = ident(row.get("contract_id"))
    gpu, storage = _more(row, "gpu_costpersec"), _more(row, "disk_ram_costpersec")
    if provider_id is None or (gpu <= 0 and storage <= 0):
        return None
    return PriceRise(provider_id, gpu, storage, _moment(row.get("contract_end_date")))


def _more(row: JsonObject, price: str) -> Decimal:
    """What it is to cost more in an hour; 0 where the row does not change it."""
    old, new = balance(row.get(f"old_{price}")), balance(row.get(f"new_{price}"))
    return Decimal(0) if old is None or new is None else (new - old) * SECONDS_PER_HOUR


def _moment(epoch: Any) -> datetime | None:
    seconds = number(epoch)
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
