"""What a simulated market can be told before it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketplaceConfig:
    """One market: the same configuration and the same calls give the same machines."""

    listen: str = "127.0.0.1:0"
    """host:port; port 0 takes a free one."""

    seed: int = 7
    time_scale: float = 1.0
    """Market seconds per second of the wall clock."""

    api_keys: tuple[str, ...] = ("sim-key",)
    """Each key is an account of its own…"""

    same_account: bool = False
    """…or all belong to one, as a person may have several."""

    offers: int = 60
    """How many offers pass the example filter of the docs at the start; half as many again do not."""

    reliable: bool = False
    """No failures, no lost races for an offer, no API errors, no slow hosts: what is left is the plan."""

    moving: bool = True
    """Prices drift, and offers come and go, as market time passes."""

    rate_limits: bool = False
    """Answer 429 below the minimum interval of each call (wall clock)."""

    retry_after: bool = False
    """Send `Retry-After` with a 429; what is said of the real market differs."""

    searches_per_day: int | None = None
    """The daily search quota per account; None is no quota."""

    credit_usd: float = 500.0
    """What each account starts with; when it is used up, the account's machines are stopped."""

    image_gb: float = 8.0
    """Size of every image that is pulled."""

    worker_url_env: str = "FLEETAGENT_URL"
    """The environment variable that makes a machine run the worker protocol."""

    min_rate_env: str = "MIN_RATE"

    faults: Mapping[str, object] = field(default_factory=dict)
    """Fault switches from the start, in the shape of `PUT /_sim/faults`."""
