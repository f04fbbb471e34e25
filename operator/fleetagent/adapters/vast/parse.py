"""Rows of the market → our words. Lenient about everything but identity and price; units as they really are.

Numbers may be null, text, NaN or infinite: such a number is unknown, which is zero for a size and None for money.
Money is read from the digits that were sent and never computed in floats.
"""

import math
from decimal import Decimal, InvalidOperation
from typing import Any

from fleetagent.domain.fleet import MarketStatus, Offer, Rented
from fleetagent.domain.model import JsonObject
from fleetagent.domain.text import neutral

MB_PER_GB = 1000
HOURS_PER_MONTH = 720
MICRO_USD = Decimal("0.000001")
MOST_USD_PER_HOUR = 1_000_000
MOST_USD = 1_000_000_000
MOST_GPUS = 64
LARGEST_SIZE = 1e12
"""Whatever is larger is no size, but a slip: it would rank first, and overflow a column."""
LONGEST_TEXT = 200
LONGEST_NAME = 64
LONGEST_URL = 2048
LONGEST_ID = 18

STATUSES = {
    None: MarketStatus.LOADING,  # being provisioned
    "created": MarketStatus.LOADING,
    "loading": MarketStatus.LOADING,
    "scheduling": MarketStatus.LOADING,
    "rebooting": MarketStatus.LOADING,
    "recycling": MarketStatus.LOADING,
    "restarting": MarketStatus.LOADING,
    "running": MarketStatus.RUNNING,
    "stopped": MarketStatus.STOPPED,
    "exited": MarketStatus.STOPPED,
    "frozen": MarketStatus.STOPPED,
    "offline": MarketStatus.OFFLINE,
}
"""Every other word is `UNKNOWN`, the market's own `unknown` (no heartbeat) included."""


def offer_in(row: JsonObject, disk_gb: int) -> Offer | None:
    """The offer of a search's row at its all-in price, or None when it can't be rented, priced or named."""
    offer_id = ident(row.get("ask_contract_id")) or ident(row.get("id"))
    machine_id, price = ident(row.get("machine_id")), _all_in_usd_per_hour(row, disk_gb)
    gpus = _gpus(row)
    taken = row.get("rentable") is False or row.get("rented") is True or row.get("is_bid") is True
    if taken or offer_id is None or machine_id is None or price is None or gpus < 1:
        return None
    return Offer(
        offer_id=offer_id,
        machine_id=machine_id,
        gpu_name=_said(row.get("gpu_name"), LONGEST_NAME),
        num_gpus=gpus,
        gpu_ram_gb=_size(row.get("gpu_ram")) / MB_PER_GB,
        cpu_ram_gb=_our_ram_gb(row),
        cpu_cores=_our_cores(row),
        disk_gb=_size(row.get("disk_space")),
        download_mbps=_size(row.get("inet_down")),
        cuda_version=_cuda_version(row.get("cuda_max_good")),
        reliability=_size(row.get("reliability2")) or _size(row.get("reliability")),
        usd_per_hour=price,
        verified=row.get("verification") == "verified" or row.get("verified") is True,
        country=_country(row),
    )


def rented_in(row: object, worker_url_env: str) -> Rented | None:
    """The machine of a row, or None when the row does not even say which machine it is."""
    if not isinstance(row, dict) or (provider_id := ident(row.get("id"))) is None:
        return None
    price = usd(row.get("dph_total"))  # on an instance, other than on an offer, storage is in it
    status = row.get("actual_status")
    return Rented(
        provider_id=provider_id,
        label=_label(row.get("label")),
        status=STATUSES.get(status, MarketStatus.UNKNOWN) if isinstance(status, str | None) else MarketStatus.UNKNOWN,
        status_message=_said(row.get("status_msg"), LONGEST_TEXT),
        machine_id=ident(row.get("machine_id")) or "",
        gpu_name=_said(row.get("gpu_name"), LONGEST_NAME),
        num_gpus=_gpus(row),
        cpu_ram_gb=_our_ram_gb(row),
        cpu_cores=_our_cores(row),
        usd_per_hour=price or None,  # a machine that costs nothing is one whose price is not known
        worker_url=_worker_url(row.get("extra_env"), worker_url_env),
        disk_gb=_size(row.get("disk_space")),
        storage_usd_per_hour=_storage_usd_per_hour(row),
    )


def ident(value: Any) -> str | None:
    """An id as text: a whole number above 0, also when sent as text or float."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    is_id = isinstance(value, str) and value.isascii() and value.isdigit() and 0 < len(value) <= LONGEST_ID
    return str(int(value)) if is_id and int(value) > 0 else None


def number(value: Any) -> float | None:
    """A finite number, also when sent as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        read = float(value)
    except (ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def usd(value: Any) -> Decimal | None:
    """Dollars as they were written, or None for what is no amount."""
    amount = _decimal(value)
    return amount.quantize(MICRO_USD) if amount is not None and 0 <= amount <= MOST_USD_PER_HOUR else None


def balance(value: Any) -> Decimal | None:
    """Dollars, those that are owed and fractions of a cent included, or None for what is no amount."""
    amount = _decimal(value)
    return amount if amount is not None and -MOST_USD <= amount <= MOST_USD else None


def _decimal(value: Any) -> Decimal | None:
    """A finite number, also as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = Decimal(str(value))
    except (InvalidOperation, ValueError):
        return None
    return amount if amount.is_finite() else None


def _all_in_usd_per_hour(row: JsonObject, disk_gb: int) -> Decimal | None:
    """GPU and storage together. `dph_total` is not it: that prices whatever disk the search was answered for."""
    base, usd_per_gb_month = usd(row.get("dph_base")), usd(row.get("storage_cost"))
    if not base or usd_per_gb_month is None:
        return None
    return (base + usd_per_gb_month * disk_gb / HOURS_PER_MONTH).quantize(MICRO_USD)


def _storage_usd_per_hour(row: JsonObject) -> Decimal | None:
    """What a machine's disk costs, from its total or from its price by the month."""
    if (total := usd(row.get("storage_total_cost"))) is not None:
        return total
    usd_per_gb_month = usd(row.get("storage_cost"))
    if usd_per_gb_month is None:
        return None
    return (usd_per_gb_month * Decimal(str(_size(row.get("disk_space")))) / HOURS_PER_MONTH).quantize(MICRO_USD)


def _size(value: Any) -> float:
    size = number(value) or 0.0
    return size if 0.0 <= size <= LARGEST_SIZE else 0.0


def _gpus(row: JsonObject) -> int:
    """0 where the number makes no sense."""
    gpus = int(_size(row.get("num_gpus")))
    return gpus if gpus <= MOST_GPUS else 0


def _share(row: JsonObject) -> float | None:
    """Which part of the host is ours, by its cores, else by its GPUs."""
    ours, all_cores = _size(row.get("cpu_cores_effective")), _size(row.get("cpu_cores"))
    by_cores, by_gpus = ours / all_cores if all_cores else 0.0, _size(row.get("gpu_frac"))
    return min(by_cores or by_gpus, 1.0) or None


def _our_ram_gb(row: JsonObject) -> float:
    """`cpu_ram` is the whole host's, so a quarter of a large host is not mistaken for a large machine."""
    return round(_size(row.get("cpu_ram")) * (_share(row) or 0.0) / MB_PER_GB, 3)


def _our_cores(row: JsonObject) -> float:
    return _size(row.get("cpu_cores_effective")) or _size(row.get("cpu_cores")) * min(_size(row.get("gpu_frac")), 1.0)


def _cuda_version(value: Any) -> str:
    version = number(value)
    return f"{version:.1f}" if version else ""


def _country(row: JsonObject) -> str:
    """Two letters, from their own field or from the end of `City, CC`."""
    code = row.get("country_code") or str(row.get("geolocation") or "").rpartition(",")[2].strip()
    is_code = isinstance(code, str) and code.isascii() and code.isalpha() and len(code) == 2
    return code.upper() if is_code else ""


def _said(value: Any, limit: int) -> str:
    return neutral(value, limit) if isinstance(value, str) else ""


def _label(value: Any) -> str | None:
    """A label that had to be cleaned can't be one of ours, and is marked so that it never looks like one."""
    if not isinstance(value, str) or not value:
        return None
    cleaned = neutral(value, LONGEST_TEXT)
    return cleaned if cleaned == value else f"?{cleaned}"


def _worker_url(env: Any, name: str) -> str | None:
    """Never shortened or cleaned: a URL that was changed leads elsewhere."""
    pairs = list(env.items()) if isinstance(env, dict) else env if isinstance(env, list) else []
    for pair in pairs:
        match pair:
            case [str(key), str(url)] if key == name:
                return url if len(url) <= LONGEST_URL and url.isascii() and url.isprintable() else None
            case _:
                continue
    return None
