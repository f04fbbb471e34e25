"""How long to wait before a server is asked again: what it says itself, else a back-off."""

import asyncio
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from tenacity import AsyncRetrying, RetryCallState, wait_exponential

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0  # a large model loads for many minutes: be patient, but do not hammer
LONGEST_HINT_SECONDS = 86_400.0
LONGEST_HINT_CHARS = 100  # a header may have 60,000, and reading spans in it would take minutes
OLDEST_EPOCH = 1_000_000_000  # a reset that is larger names a date, not a span
ALLOWANCES = ("requests", "tokens")

UNIT = r"(?:ms|milliseconds?|h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])"
TRY_AGAIN = re.compile(rf"(?i)(?:try again|retry|wait)\D{{0,20}}?((?:\d[\d.]*\s*{UNIT}\s*)+)")
SPAN = re.compile(r"(?i)([\d.]+)\s*(ms|milli|h|m|s)")
UNIT_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

DOUBLING = wait_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS)


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock, the chance and the patience of this process; a test brings its own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many requests or tokens a server still takes, and in how many seconds it has all of them again."""

    what: str
    left: float
    reset_seconds: float


def backoff_seconds(failures: int, chance: float) -> float:
    """Doubles with each failure up to a cap; `chance` spreads it over the upper half, so that agents don't march."""
    state = RetryCallState(retry_object=AsyncRetrying(), fn=None, args=(), kwargs={})
    state.attempt_number = failures
    return DOUBLING(state) * (0.5 + chance / 2)


def asked_wait_seconds(headers: Mapping[str, str], message: str, epoch: float) -> float | None:
    """How long the server asks us to wait, by header or by its words; None when it does not say."""
    for hint in (
        _milliseconds(headers.get("retry-after-ms", "")),
        _retry_after(headers.get("retry-after", ""), epoch),
        *(allowance.reset_seconds for allowance in allowances(headers, epoch) if allowance.left <= 0),
        _span(found.group(1)) if (found := TRY_AGAIN.search(message)) else None,
    ):
        if hint is not None and hint > 0:  # zero and negative mean that a proxy does not know
            return min(hint, LONGEST_HINT_SECONDS)
    return None


def allowances(headers: Mapping[str, str], epoch: float) -> Iterator[Allowance]:
    """What the server says that it still takes; without a time to come of its return it says nothing (Azure: 0, -1)."""
    for what in ALLOWANCES:
        left = _number(headers.get(f"x-ratelimit-remaining-{what}", ""))
        reset = _reset_seconds(headers.get(f"x-ratelimit-reset-{what}", ""), epoch)
        if left is not None and reset is not None and reset > 0:
            yield Allowance(what, left, min(reset, LONGEST_HINT_SECONDS))


def _milliseconds(text: str) -> float | None:
    number = _number(text)
    return None if number is None else number / 1000


def _retry_after(text: str, epoch: float) -> float | None:
    number = _number(text)
    if number is not None or not 0 < len(text) <= LONGEST_HINT_CHARS:
        return number
    try:
        then = parsedate_to_datetime(text)
        return then.replace(tzinfo=then.tzinfo or UTC).timestamp() - epoch
    except (ValueError, OverflowError):  # no date, or one of the year 99999999999
        return _span(text)


def _reset_seconds(text: str, epoch: float) -> float | None:
    """Seconds of a span with units (OpenAI), of a bare number (others), or until a moment in seconds since 1970."""
    number = _number(text)
    if number is None:
        return _span(text)
    return number - epoch if number > OLDEST_EPOCH else number


def _span(text: str) -> float | None:
    """Seconds of `1m12.5s`, `20 seconds`, `350ms`."""
    if len(text) > LONGEST_HINT_CHARS:
        return None
    seconds = [
        number * UNIT_SECONDS[unit.lower()] for digits, unit in SPAN.findall(text) if (number := _number(digits))
    ]
    return sum(seconds) if seconds else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
