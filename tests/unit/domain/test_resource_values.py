"""The small types of the resource."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.resource import CudaVersion, OfferFilter, Pause, parse_duration, write_duration, write_usd
from fleetagent.domain.resource.values import write_moment, write_number
from fleetagent.domain.resource.wire import wire_name


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0s", timedelta(0)),
        ("90m", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("90d", timedelta(days=90)),
        ("1d2h3m4s", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("007s", timedelta(seconds=7)),
    ],
)
def test_a_duration_is_read_by_its_units(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize("text", ["", "5", "5 m", "-5m", "1m5h", "1.5h", "5m\n", "5ms", "5M"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration like"):
        parse_duration(text)


@given(
    st.timedeltas(timedelta(0), timedelta(days=9999)).map(lambda span: timedelta(seconds=span // timedelta(seconds=1)))
)
def test_a_written_duration_reads_back_as_the_same(span: timedelta) -> None:
    assert parse_duration(write_duration(span)) == span


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("3.42", "3.42"),
        ("51.2", "51.20"),
        ("4", "4.00"),
        ("0.008", "0.008"),
        ("1E-9", "0.000000001"),
        ("1E+2", "100.00"),
    ],
)
def test_money_is_written_in_full_with_two_decimals_at_least(amount: str, text: str) -> None:
    assert write_usd(Decimal(amount)) == text


@pytest.mark.parametrize(("number", "written"), [("410", 410), ("410.0", 410), ("410.456", 410.456), ("0.97", 0.97)])
def test_a_number_is_whole_where_it_can_be(number: str, written: float) -> None:
    assert write_number(Decimal(number)) == pytest.approx(written)
    assert isinstance(write_number(Decimal("410.0")), int)


def test_cuda_versions_compare_as_numbers() -> None:
    assert CudaVersion(12, 10) > CudaVersion(12, 9)
    assert OfferFilter.read({"minCudaVersion": "12.10"}).min_cuda_version == CudaVersion(12, 10)
    assert str(CudaVersion(12, 10)) == "12.10"


def test_a_moment_is_in_utc_whatever_zone_it_was_written_in() -> None:
    pause = Pause.read({"until": "2026-12-01T09:30:00+01:30"})

    assert pause.until == datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
    assert pause.until.tzinfo == UTC
    assert write_moment(pause.until) == "2026-12-01T08:00:00Z"


def test_a_moment_is_written_with_parts_of_a_second_where_it_has_them() -> None:
    moment = datetime(2026, 12, 1, 9, 30, 59, 500_000, timezone(timedelta(hours=1)))

    assert write_moment(moment) == "2026-12-01T08:30:59.500000Z"


@pytest.mark.parametrize(
    ("python", "wire"),
    [
        ("base_url", "baseURL"),
        ("worker_url_env", "workerURLEnv"),
        ("min_gpu_ram_gb", "minGpuRamGB"),
        ("last_run_id", "lastRunID"),
        ("id", "id"),
        ("url", "url"),
        ("fleet_usd_per_hour", "fleetUsdPerHour"),
    ],
)
def test_wire_names_are_camel_case_with_their_acronyms(python: str, wire: str) -> None:
    assert wire_name(python) == wire
