import time
from email.utils import formatdate

import pytest

from fleetagent.adapters.model.waits import asked_wait_seconds, backoff_seconds

EPOCH = 1_795_000_000.0


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
        ({"retry-after": "20"}, "", 20),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after": formatdate(EPOCH + 30, usegmt=True)}, "", 30),
        ({"retry-after": formatdate(EPOCH - 30, usegmt=True)}, "", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "0"}, "Please try again in 41.724s.", 41.724),
        ({}, "Please try again in 1m12.5s. Visit …", 72.5),
        ({}, "try again in 350ms", 0.35),
        ({}, "Please retry after 10 seconds.", 10),
        ({}, "Retry in 2 minutes", 120),
        ({}, "try again later", None),
        ({}, "Limit 30000, Used 29000", None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, "", 360),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "6m0s"}, "", None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "0"}, "", None),
        ({"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "-1"}, "", None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12"}, "", 12),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{EPOCH + 40:.0f}"}, "", 40),
        ({"x-ratelimit-remaining-requests": "0"}, "", None),
        ({"retry-after": "Thu, 99 Xxx 2026"}, "", None),
        ({"retry-after": "-5"}, "Please wait 3 seconds", 3),
        ({"retry-after": "1e300"}, "", 86_400),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, "", 86_400),
        ({"retry-after": "Fri, 31 Dec 99999999999999 23:59:59 GMT"}, "", None),
        ({"retry-after": "Fri, 31 Dec 2027 23:59:59 +99999999999999"}, "", None),
        ({"retry-after": "Fri, 31 Dec 2027 99999999999999:59:59 GMT"}, "", None),
        ({"retry-after": "1 s" + " " * 200}, "", None),
    ],
    ids=repr,
)
def test_the_wait_that_a_server_asks_for_is_understood(
    headers: dict[str, str], message: str, seconds: float | None
) -> None:
    assert asked_wait_seconds(headers, message, EPOCH) == (
        None if seconds is None else pytest.approx(seconds, abs=1e-6)
    )


@pytest.mark.parametrize("header", ["retry-after", "retry-after-ms", "x-ratelimit-reset-requests"])
@pytest.mark.parametrize("value", ["1" * 60_000, "." * 60_000, "1." * 30_000, "(" * 60_000], ids=["1", ".", "1.", "("])
def test_a_header_of_60_000_characters_holds_nobody_up(header: str, value: str) -> None:
    began = time.perf_counter()

    assert asked_wait_seconds({"x-ratelimit-remaining-requests": "0", header: value}, "", EPOCH) is None
    assert time.perf_counter() - began < 1  # it took minutes, while no other agent could do anything


def test_backoff_doubles_is_spread_and_ends_at_a_minute() -> None:
    assert [backoff_seconds(failures, 1.0) for failures in (1, 2, 3, 8, 10_000)] == [0.5, 1.0, 2.0, 60.0, 60.0]
    assert backoff_seconds(3, 0.0) == 1.0
