"""The small types that specs are made of: each knows its JSON schema and becomes a useful Python value.

Patterns use what RE2, Rust's regex and Python's re read alike: ASCII classes, no look-around.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from fleetagent.domain.resource.wire import Wire, rules

# The digits are limited because the API server adds durations up in 64 bits of nanoseconds, and wraps around silently.
DURATION_PATTERN = r"^([0-9]{1,4}d)?([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,8}s)?$"
USD_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,9})?$"
# Years 2000 to 2999: in any time zone, these are moments that Python can hold too.
MOMENT_PATTERN = (
    r"^2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
DNS_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
HTTP_URL_PATTERN = r"^https?://[^\s]+$"
LINE_PATTERN = r"^[^\x00-\x1f\x7f]*$"  # no line breaks, no NUL: Postgres stores none
TEXT_PATTERN = r"^[^\x00]*$"
ENV_NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"


def parse_duration(text: str) -> timedelta:
    """`1h30m` is 90 minutes; units are d, h, m and s, each at most once and in this order."""
    parts = re.fullmatch(DURATION_PATTERN, text)
    if not parts or not text:
        raise ValueError(f"{text!r} is no duration like 90s, 5m, 1h30m or 90d")
    days, hours, minutes, seconds = (int(part[:-1]) if part else 0 for part in parts.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def write_duration(span: timedelta) -> str:
    """90 minutes are `1h30m`. Parts of a second are dropped."""
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def write_moment(moment: datetime) -> str:
    """RFC 3339 in UTC, with parts of a second only where there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def write_usd(amount: Decimal) -> str:
    """All that the amount says, with two decimals at least and never an exponent."""
    whole, _, decimals = format(amount, "f").partition(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def write_number(number: Decimal) -> int | float:
    """A JSON number, without a fraction where there is none."""
    return int(number) if number == number.to_integral_value() else float(number)


class CudaVersion(NamedTuple):
    """Major and minor, compared as numbers: 12.10 is newer than 12.9."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def _duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _cuda_version(value: Any) -> Any:
    return CudaVersion(*map(int, value.split("."))) if isinstance(value, str) else value


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(write_duration),
    WithJsonSchema(
        {"type": "string", "format": "duration", "minLength": 2, "maxLength": 29, "pattern": DURATION_PATTERN}
    ),
]
Usd = Annotated[
    Decimal,
    PlainSerializer(write_usd),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 19, "pattern": USD_PATTERN}),
]
Number = Annotated[Decimal, PlainSerializer(write_number), WithJsonSchema({"type": "number"})]
Moment = Annotated[
    AwareDatetime,
    AfterValidator(_in_utc),
    PlainSerializer(write_moment),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 35, "pattern": MOMENT_PATTERN}),
]
Cuda = Annotated[
    CudaVersion,
    BeforeValidator(_cuda_version),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "maxLength": 5, "pattern": r"^[0-9]{1,2}\.[0-9]{1,2}$"}),
]
HttpURL = Annotated[str, Field(max_length=2048, pattern=HTTP_URL_PATTERN)]
EnvName = Annotated[str, Field(min_length=1, max_length=256, pattern=ENV_NAME_PATTERN)]

NO_CREDENTIALS = ("!self.matches('^https?://[^/?#]*@')", "must not hold a user or password: they belong into a Secret")
NO_QUERY = ("!self.contains('?') && !self.contains('#')", "must not have a query or fragment: give the base only")
HAS_HOST = (
    r"self.matches('^https?://([^/?#]*@)?([A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?([/?#]|$)')",
    "must name a host, and if need be a port, after http:// or https://",
)
NOT_ZERO = ("quantity(self).isGreaterThan(quantity('0'))", "must be above 0")


def lasting(default: str | None, *, least: str, most: str) -> Any:
    """A duration field with its default, written as users would write it, and its bounds, both included."""
    bounds = (
        f"self >= duration('{_in_hours(least)}') && self <= duration('{_in_hours(most)}')",
        f"must be between {least} and {most}",
    )
    if default is None:
        return Field(default=None, json_schema_extra=rules(bounds))
    return Field(default=parse_duration(default), json_schema_extra={"default": default, **rules(bounds)})


def _in_hours(text: str) -> str:
    """CEL's own `duration()` knows no days."""
    return f"{24 * int(text[:-1])}h" if text.endswith("d") else text


class SecretKeyRef(Wire):
    """One key of a Secret in the resource's own namespace."""

    name: str = Field(min_length=1, max_length=253, pattern=DNS_NAME_PATTERN)
    """Name of the Secret, in the resource's own namespace."""

    key: str = Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")
    """Key inside the Secret."""


class SecretRef(Wire):
    """A whole Secret in the resource's own namespace."""

    name: str = Field(min_length=1, max_length=253, pattern=DNS_NAME_PATTERN)
    """Name of the Secret, in the resource's own namespace."""
