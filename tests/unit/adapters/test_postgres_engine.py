"""The database's URL is read as libpq reads it, and no complaint repeats the password."""

import psycopg
import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.engine import open_engine, reason_of
from fleetagent.errors import CannotStart


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "does not start with postgresql://"),
        ("host=db password=s3cret", "does not start with postgresql://"),
        ("mysql://fleetagent:s3cret@db/fleetagent", "does not start with postgresql://"),
        ("postgresql://fleetagent:s3cret@db/fleetagent?colour=s3cret", "cannot be read"),
        ("postgresql://fleetagent:s3cret%zz@db/fleetagent", "cannot be read"),
        ("postgresql://fleetagent:a@s3cret@db/fleetagent", "written as %40 for @"),
        ("postgresql://fleetagent:a/s3cret@db/fleetagent", "written as %40 for @"),
        ("postgresql://postgres:7/s3cret@db:5432/fleetagent", "written as %40 for @"),
        ("postgresql://fleetagent:s3cret@db:port/fleetagent", "names no usable host and port"),
        ("postgresql://fleetagent:s3cret@db:65536/fleetagent", "names no usable host and port"),
    ],
)
def test_a_url_that_cannot_be_one_is_told_without_its_password(url: str, words: str) -> None:
    with pytest.raises(CannotStart) as caught:
        open_engine(url)

    said = str(caught.value)
    assert said.startswith("FLEETAGENT_DATABASE_URL ")
    assert words in said
    assert "s3cret" not in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://fleetagent:p%40ss@db:5432/fleetagent",
        "postgres://db/fleetagent?sslmode=require",
        "postgresql:///fleetagent?host=/run/postgresql",
        "postgresql://one:5432,two:5433/fleetagent?target_session_attrs=read-write",
        "postgresql://[::1]:5432/fleetagent",
    ],
)
def test_whatever_libpq_takes_is_taken(url: str) -> None:
    assert open_engine(url).dialect.name == "postgresql"


REFUSED = "connection failed: refused\n\tIs the server running there?"
BOTH_REFUSED = "all attempts failed:\n- ::1: refused\n- 127.0.0.1: refused"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (psycopg.OperationalError(REFUSED), "connection failed: refused"),
        (psycopg.OperationalError(BOTH_REFUSED), "all attempts failed: - ::1: refused - 127.0.0.1: refused"),
        (TimeoutError(), "no answer in time"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
    ids=["advice is left out", "every attempt is told", "silence", "a name at least"],
)
def test_a_reason_is_one_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
    assert reason_of(sa.exc.OperationalError("SELECT 1", None, error)) == reason
