"""How long to wait before the same request is sent again."""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0  # a large model loads for many minutes: be patient, but do not hammer
LONGEST_HINT_SECONDS = 86_400.0

UNIT = r"(?:ms|milliseconds?|h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])"
TRY_AGAIN = re.compile(rf"(?i)(?:try again|retry|wait)\D{{0,20}}?((?:\d[\d.]*\s*{UNIT}\s*)+)")
SPAN = re.compile(r"(?i)([\d.]+)\s*(ms|milli|h|m|s)")
UNIT_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock, the chance and the patience of this process; a test brings its own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    monotonic: Callable[[], float] = time.monotonic
    epoch: Callable[[], float] = time.time


def backoff_seconds(failures: int, chance: float) -> float:
    """Doubles with each failure up to a cap; `chance` spreads it over the upper half, so that agents don't march."""
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, 16))
    return longest * (0.5 + chance / 2)


def asked_wait_seconds(headers: Mapping[str, str], message: str, epoch: float) -> float | None:
    """How long the server asks us to wait, by header or by its words; None when it does not say."""
    for hint in (
        _milliseconds(headers.get("retry-after-ms", "")),
        _retry_after(headers.get("retry-after", ""), epoch),
        _reset(headers, "requests"),
        _reset(headers, "tokens"),
        _span(found.group(1)) if (found := TRY_AGAIN.search(message)) else None,
    ):
        if hint is not None and hint > 0:  # zero and negative mean that a proxy does not know
            return min(hint, LONGEST_HINT_SECONDS)
    return None


def _milliseconds(text: str) -> float | None:
    number = _number(text)
    return None if number is None else number / 1000


def _retry_after(text: str, epoch: float) -> float | None:
    number = _number(text)
    if number is not None or not text:
        return number
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return _span(text)
    return then.replace(tzinfo=then.tzinfo or UTC).timestamp() - epoch


def _reset(headers: Mapping[str, str], what: str) -> float | None:
    """When the used-up allowance returns; one that is not used up says nothing about this refusal."""
    if headers.get(f"x-ratelimit-remaining-{what}") != "0":
        return None
    return _span(headers.get(f"x-ratelimit-reset-{what}", ""))


def _span(text: str) -> float | None:
    """Seconds of `1m12.5s`, `20 seconds`, `350ms`."""
    seconds = [
        number * UNIT_SECONDS[unit.lower()] for digits, unit in SPAN.findall(text) if (number := _number(digits))
    ]
    return sum(seconds) if seconds else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number and abs(number) != float("inf") else None  # noqa: PLR0124  # NaN
