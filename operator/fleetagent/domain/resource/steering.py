"""How people steer an agent: what it may do, what it aims for, when it thinks, how far it may go."""

from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from fleetagent.domain.resource.values import (
    LINE_PATTERN,
    NOT_ZERO,
    Duration,
    Moment,
    Number,
    SecretKeyRef,
    Usd,
    lasting,
)
from fleetagent.domain.resource.wire import Wire, rules

DEFAULT_INTERVAL = timedelta(minutes=5)

# Ranges, lists and steps per field, so that a slip is refused at once and not found at the next beat.
_MONTHS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_DAYS = "SUN|MON|TUE|WED|THU|FRI|SAT"


def _cron_field(number: str) -> str:
    part = rf"(\*|({number})(-({number}))?)(/[1-9][0-9]?)?"
    return f"{part}(,{part})*"


CRON_PATTERN = "^{} {} {} {} {}$".format(
    _cron_field("[0-5]?[0-9]"),
    _cron_field("[01]?[0-9]|2[0-3]"),
    _cron_field("0?[1-9]|[12][0-9]|3[01]"),
    _cron_field(f"0?[1-9]|1[0-2]|{_MONTHS}"),
    _cron_field(f"[0-7]|{_DAYS}"),
)

TIME_ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
FIVE_CRON_FIELDS = (
    "self.matches('{}')".format(CRON_PATTERN.replace("\\", r"\\")),
    "must be five fields (minute hour day month weekday) with one space between, such as */5 * * * *",
)
RANGES_RISE = (
    "self.findAll('[0-9]+-[0-9]+').all(range, int(range.split('-')[0]) <= int(range.split('-')[1]))",
    "must have ranges that rise: 1-5, not 5-1",
)
# Go looks the name up; where it finds none, the rule fails with an error that repeats the name.
KNOWN_ZONE = ("timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0 && self != 'Local'", "must be an IANA time zone")


class Mode(StrEnum):
    """What the agent may do to the fleet."""

    ACT = "Act"
    APPROVE = "Approve"
    DRY_RUN = "DryRun"
    SUSPENDED = "Suspended"


class Direction(StrEnum):
    """Up is launching, Down is stopping."""

    UP = "Up"
    DOWN = "Down"


class Fallback(StrEnum):
    """Who decides while the model cannot."""

    HOLD = "Hold"
    CONTROLLER = "Controller"


class DeletionPolicy(StrEnum):
    """What happens to the rented machines when the resource is deleted."""

    DESTROY = "Destroy"
    RETAIN = "Retain"


class Pause(Wire):
    """Runs go on; launches (Up), stops (Down) or both are refused until a moment. Ends by itself."""

    until: Moment
    """When the pause ends by itself: RFC 3339, such as 2026-12-01T08:00:00Z."""

    reason: str = Field("", max_length=1024, pattern=LINE_PATTERN)
    """Why; shown to people and said to the agent."""

    directions: tuple[Direction, ...] = Field(
        (Direction.UP,), min_length=1, max_length=2, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """What is refused: Up (launches), Down (stops), or both."""

    def refuses(self, direction: Direction, now: datetime) -> bool:
        """Whether an action in this direction is refused at this moment."""
        return now < self.until and direction in self.directions


class Target(Wire):
    """The proving rate that the agent keeps."""

    proofs_per_hour: int = Field(ge=0, le=1_000_000)
    """Proofs per hour to keep while demand is active. 0 drains the fleet down to limits.minInstances."""

    tolerance_percent: Annotated[Number, Field(json_schema_extra={"minimum": 0, "maximum": 50})] = Decimal(3)
    """Shortfall in percent of the target at which the agent still holds: 485 of 500 is on target at 3."""


class Debounce(Wire):
    """How a burst of fleet events becomes one run."""

    model_config = ConfigDict(
        json_schema_extra=rules(("self.idle <= self.max", "idle must not be longer than max: raise max or lower idle"))
    )

    idle: Duration = lasting("5s", least="0s", most="5m")
    """Quiet time after the last event before the run starts, such as 5s."""

    max: Duration = lasting("60s", least="0s", most="1h")
    """Longest time from the first event to the run, however many follow, such as 60s."""


class WakeLimits(Wire):
    """Bounds for the wakes that the model asks for."""

    model_config = ConfigDict(
        json_schema_extra=rules(("self.min <= self.max", "min must not be longer than max: raise max or lower min"))
    )

    min: Duration = lasting("1m", least="1s", most="24h")
    """Earliest wake from now; what is asked for sooner is moved here."""

    max: Duration = lasting("24h", least="1s", most="30d")
    """Latest wake from now; what is asked for later is moved here."""

    limit: int = Field(20, ge=0, le=100)
    """Most wakes pending at a time; further ones are refused."""


class Schedule(Wire):
    """When the agent runs by itself: every interval, or by cron."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!(has(self.interval) && has(self.cron))", "interval and cron exclude each other: remove one of them"),
            ("!has(self.timeZone) || has(self.cron)", "timeZone applies to cron only: remove it or set cron"),
        )
    )

    interval: Duration | None = lasting(None, least="10s", most="24h")
    """Time between scheduled runs. Without interval and cron: 5m."""

    cron: str | None = Field(None, min_length=9, max_length=128, json_schema_extra=rules(FIVE_CRON_FIELDS, RANGES_RISE))
    """Scheduled runs as five cron fields, such as "*/5 * * * *". Excludes interval."""

    time_zone: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        pattern=TIME_ZONE_PATTERN,
        json_schema_extra=rules(KNOWN_ZONE),
    )
    """IANA time zone of cron, such as Europe/Berlin. Absent: UTC."""

    debounce: Debounce = Debounce()
    """How a burst of fleet events becomes one run."""

    skip_unchanged: bool = True
    """Make no model call while nothing that matters has changed since a quiet run."""

    max_quiet: Duration = lasting("1h", least="10s", most="24h")
    """Longest time without a model call, although nothing changed."""

    wakes: WakeLimits = WakeLimits()
    """Bounds for the wakes that the model asks for."""

    @property
    def every(self) -> timedelta | None:
        """Time between scheduled runs; None where cron decides."""
        if self.cron is not None:
            return None
        return self.interval if self.interval is not None else DEFAULT_INTERVAL


class Budget(Wire):
    """What may be spent. A day is a UTC day. Caps refuse launches and calls; they stop no machine."""

    fleet_usd_per_hour: Usd
    """Most that all machines together may cost, in USD per hour, storage included. A string, such as "4.00"."""

    fleet_usd_per_day: Usd | None = None
    """Most that all machines together may cost, in USD per UTC day. Absent: no limit."""

    usd_per_proof: Usd | None = Field(None, json_schema_extra=rules(NOT_ZERO))
    """Most that one proof may cost, in USD; slower machines are refused or fail their benchmark. Absent: no limit."""

    model_tokens_per_day: int | None = Field(None, ge=0, le=1_000_000_000_000)
    """Most tokens, prompt and reply together, per UTC day; used up counts as model unavailable. Absent: no limit."""


class Limits(Wire):
    """Hard limits for what the agent does, whatever the model says."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.minInstances <= self.maxInstances",
                "minInstances must not be above maxInstances: lower minInstances or raise maxInstances",
            )
        )
    )

    max_instances: int = Field(20, ge=0, le=1000)
    """Most machines at a time, those on their way included."""

    min_instances: int = Field(0, ge=0, le=1000)
    """Machines that are kept even while demand is inactive."""

    launches_per_run: int = Field(2, ge=0, le=100)
    """Most launches in one run."""

    launches_per_hour: int = Field(6, ge=0, le=1000)
    """Most launches within any 60 minutes."""

    stops_per_run: int = Field(2, ge=0, le=100)
    """Most stops in one run."""

    min_instance_age: Duration = lasting("30m", least="0s", most="7d")
    """Younger machines are not stopped by the agent."""


class Retention(Wire):
    """How long the audit is kept."""

    runs: Duration = lasting("90d", least="1h", most="3650d")
    """How long runs are kept, with their actions, triggers, wakes and alerts."""

    messages: Duration = lasting("90d", least="1h", most="3650d")
    """How long messages are kept that have left the prompt, and people's own once their session has ended."""


class Alerts(Wire):
    """Where alerts go outside the cluster."""

    notify_secret_ref: SecretKeyRef
    """Secret key that holds the URLs of receivers, one a line, as apprise writes them; # begins a comment."""
