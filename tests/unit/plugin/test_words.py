"""Times and figures in the plugin's tables."""

from datetime import UTC, datetime, timedelta

import pytest

from fleetagent.plugin.words import age, ago, count, of, span, until

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (187, "3m7s"), (7200, "2h"), (7500, "2h5m"), (273_600, "3d4h")],
)
def test_a_span_reads_like_kubectls_age(seconds: int, said: str) -> None:
    assert span(timedelta(seconds=seconds)) == said


def test_moments_are_told_from_now() -> None:
    assert ago("2026-11-30T11:59:00Z", NOW) == "60s ago"
    assert age("2026-11-30T12:59:00+01:00", NOW) == "60s"
    assert until("2026-11-30T12:05:00Z", NOW) == "in 5m"
    assert until("2026-11-30T11:55:00Z", NOW) == "due for 5m"


@pytest.mark.parametrize("moment", [None, "", "soon", 7])
def test_what_is_no_moment_is_a_dash(moment: object) -> None:
    assert (age(moment, NOW), ago(moment, NOW), until(moment, NOW)) == ("-", "-", "-")


def test_figures_stand_as_they_are() -> None:
    assert of("1.2521", "4.00") == "1.2521 of 4.00"
    assert of(None, "4.00") == "- of 4.00"
    assert of("1.2521", None) == "1.2521"
    assert (count(120345), count(None)) == ("120,345", "-")
