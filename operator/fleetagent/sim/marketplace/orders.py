"""The body of a create, checked as the market checks it."""

from collections.abc import Mapping
from typing import Any

from fleetagent.sim.marketplace.errors import Refused, invalid_args, label_too_long
from fleetagent.sim.marketplace.machines import Order

LABEL_AT_CREATE = 256
LABEL_LATER = 1024
IMAGE_CHARS = 1024
SMALLEST_DISK_GB = 8
ENV_CHARS, ENV_TOTAL_CHARS = 256, 32_768
SCRIPT_CHARS = 4096
RUNTYPES = ("ssh", "jupyter", "args")


def read_order(body: Mapping[str, Any], *, largest_disk_gb: float) -> Order:
    """The order, or the refusal of its first fault."""
    return Order(
        image=_image(body),
        disk_gb=_disk_gb(body, largest_disk_gb),
        label=checked_label(body.get("label"), LABEL_AT_CREATE),
        env=_env(body.get("env", {})),
        onstart=_scripts(body),
        args=tuple(body.get("args") or ()),
        runtype=_runtype(body),
        bid_usd_per_hour=_price(body),
        cancel_unavail=_boolean(body, "cancel_unavail"),
        wanted=checked_state(body.get("target_state", "running")),
    )


def checked_label(label: object, longest: int) -> str | None:
    """A label or null."""
    if label is not None and not isinstance(label, str):
        raise invalid_args("label must be a string")
    if label is not None and len(label) > longest:
        raise label_too_long(longest)
    return label


def checked_state(state: object) -> str:
    """`running` or `stopped`; there is no other wish."""
    if state not in {"running", "stopped"}:
        raise invalid_args("state must be running or stopped")
    return str(state)


def _image(body: Mapping[str, Any]) -> str:
    image = body.get("image") or body.get("template_hash_id")
    if not isinstance(image, str) or len(image) > IMAGE_CHARS:
        raise invalid_args(f"image or template_hash_id is required, at most {IMAGE_CHARS} characters")
    return image


def _disk_gb(body: Mapping[str, Any], largest: float) -> float:
    disk = body.get("disk", SMALLEST_DISK_GB)
    if isinstance(disk, bool) or not isinstance(disk, int | float) or disk < SMALLEST_DISK_GB:
        raise invalid_args(f"disk must be at least {SMALLEST_DISK_GB} GB")
    if disk > largest:
        raise invalid_args(f"disk {disk} GB is more than the {largest} GB that the offer has")
    return float(disk)


def _env(env: object) -> dict[str, str]:
    if not isinstance(env, dict):
        raise invalid_args('env must be a JSON object, ports as keys like "-p 8000:8000"')
    for name, value in env.items():
        if not isinstance(value, str):
            raise invalid_args(f"env {name}: the value must be a string")
        if len(name) > ENV_CHARS or len(value) > ENV_CHARS:
            raise invalid_args(f"env {name[:40]}: names and values are at most {ENV_CHARS} characters")
    if sum(len(name) + len(value) for name, value in env.items()) > ENV_TOTAL_CHARS:
        raise invalid_args(f"env is larger than {ENV_TOTAL_CHARS} characters")
    return dict(env)


def _scripts(body: Mapping[str, Any]) -> str | None:
    onstart, args, args_str = body.get("onstart"), body.get("args"), body.get("args_str")
    if args is not None and not (isinstance(args, list) and all(isinstance(each, str) for each in args)):
        raise invalid_args("args must be a list of strings")
    if not all(each is None or isinstance(each, str) for each in (onstart, args_str)):
        raise invalid_args("onstart and args_str must be strings")
    if len(onstart or "") + len(args_str or "") + sum(map(len, args or ())) > SCRIPT_CHARS:
        raise invalid_args(f"onstart, args and args_str are together at most {SCRIPT_CHARS} characters")
    return onstart


def _runtype(body: Mapping[str, Any]) -> str:
    runtype = body.get("runtype", "args")
    if not isinstance(runtype, str) or not runtype.startswith(RUNTYPES):
        raise invalid_args(f"runtype must begin with one of {', '.join(RUNTYPES)}")
    return runtype


def _price(body: Mapping[str, Any]) -> float | None:
    price = body.get("price")
    if price is None:
        return None
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0.001 <= price <= 128:
        raise Refused(400, "invalid_price", "price must be between 0.001 and 128")
    return float(price)


def _boolean(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise invalid_args(f"{name} must be true or false")
    return value
