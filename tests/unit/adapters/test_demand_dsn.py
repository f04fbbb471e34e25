"""A DSN that a stranger may have written: what it can make the operator open, send and tell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.adapters.demand.dsn import Dsn, read_dsn
from fleetagent.errors import BadResource


def refusal(text: str) -> str:
    """Why this DSN cannot be used."""
    with pytest.raises(BadResource) as caught:
        read_dsn(text)
    assert (caught.value.condition, caught.value.reason) == ("DemandKnown", "BadDSN")
    assert str(caught.value).startswith("spec.demand.curio.dsnSecretRef: the Secret's value ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("postgresql://u:p@db.svc/yugabyte", ["postgresql://db.svc:5432"]),
        ("postgres://u:p@db.svc:5433/yugabyte?sslmode=require", ["postgresql://db.svc:5433"]),
        (" host=db.svc port=5433 user=u password=p dbname=yugabyte\n", ["postgresql://db.svc:5433"]),
        ("postgresql:///yugabyte?user=u&host=db.svc", ["postgresql://db.svc:5432"]),
        ("postgresql://u@nice.svc/db?host=db.svc", ["postgresql://db.svc:5432"]),
        ("postgresql://u@a.svc,b.svc:5433/db", ["postgresql://a.svc:5432", "postgresql://b.svc:5433"]),
        ("host=a.svc,b.svc port=5433 user=u", ["postgresql://a.svc:5433", "postgresql://b.svc:5433"]),
        ("postgresql://u@[fd00::1]:5433/db", ["postgresql://[fd00::1]:5433"]),
        ("host=nice.svc hostaddr=127.0.0.1 user=u", ["postgresql://127.0.0.1:5432"]),
        ("postgresql://u@%31%32%37.0.0.1/db", ["postgresql://127.0.0.1:5432"]),
    ],
)
def test_every_host_that_would_be_opened_is_named(text: str, addresses: list[str]) -> None:
    assert list(read_dsn(text).addresses) == addresses


@pytest.mark.parametrize(
    "text",
    [
        "postgresql:///yugabyte?user=u",
        "user=u dbname=yugabyte",
        "host=/var/run/postgresql user=u",
        "postgresql://u@%2Fvar%2Frun/db",
        "postgresql://u@db.svc/db?host=/tmp",
        "host=@abstract user=u",
        "host=a.svc,,b.svc user=u",
        "host=a.svc, user=u",
        "host=nice.svc hostaddr=10.0.0.1,10.0.0.2 user=u",
        "host='db.svc/../x' user=u",
        "host='db.svc#' user=u",
        "host='fe80::1%eth0' user=u",
    ],
)
def test_sockets_and_what_is_no_host_are_not_opened(text: str) -> None:
    assert "names " in refusal(text)


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "5432x", "٣", "1,2"])
def test_a_port_must_be_one_and_belong_to_a_host(port: str) -> None:
    assert "port" in refusal(f"host=db.svc port={port} user=u")


@pytest.mark.parametrize(
    "setting",
    [
        *("options=-csearch_path=curio", "service=mine", "passfile=/root/.pgpass"),
        *("sslkey=/root/key", "sslcert=/root/crt", "sslrootcert=/root/ca", "sslcrl=/x", "sslkeylogfile=/tmp/keys"),
        *("replication=database", "krbsrvname=x", "requirepeer=root", "gssdelegation=1"),
    ],
)
def test_what_would_read_files_or_set_a_session_up_is_refused_by_name(setting: str) -> None:
    name, _, value = setting.partition("=")

    words = refusal(f"host=db.svc user=u {setting}")

    assert f"must not set {name}: leave it out" in words
    assert value not in words


def test_the_system_s_certificates_may_be_asked_for() -> None:
    assert read_dsn("host=db.svc user=u sslmode=verify-full sslrootcert=system").parameters["sslrootcert"] == "system"


def test_nothing_is_left_for_libpq_to_find_on_this_machine() -> None:
    parameters = read_dsn("postgresql://u@db.svc?connect_timeout=0&keepalives=0&application_name=x").parameters

    assert parameters == {
        "host": "db.svc",
        "port": "5432",
        "user": "u",
        "dbname": "u",
        "password": "",
        "options": "",
        "passfile": "/nonexistent/pgpass",
        "sslcertmode": "disable",
        "gssencmode": "disable",
        "application_name": "fleetagent",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3cret-word",
        "postgresql://u:s3cret@word@db.svc/x",
        "postgresql://u:s3cret/word@db.svc/x",
        "postgresql://u:12/s3cret@db.svc/x",
        "postgresql://u:p@s3cret:word@db.svc/x",
        "postgresql://u:p@s3cret/word@db.svc/x",
        "postgresql://u:p@ss?s3cret@db.svc/x",
        "postgresql://u:p%s3cret@db.svc/x",
        "host=db.svc user=u password=two s3cret words",
        "mysql://u:s3cret@db.svc/x",
        "host=db.svc password=s3cret",
        "postgresql://:s3cret@db.svc/x",
        "host=\ud800 user=u password=s3cret",
    ],
)
def test_a_refusal_repeats_no_part_that_could_be_the_password(text: str) -> None:
    words = refusal(text)

    assert "s3cret" not in words
    assert "word@" not in words.replace("password@host", "")


def test_a_dsn_shows_no_password_and_takes_it_out_of_others_words() -> None:
    dsn = read_dsn("postgresql://u:s3cret-word@db.svc/x")

    assert "s3cret" not in repr(dsn)
    assert dsn.without_password("bad startup packet: u s3cret-word x") == "bad startup packet: u … x"


@given(st.text(max_size=60) | st.from_regex(r"(postgresql://)?[-a-z0-9:@/?=%&.,\[\] ]{0,60}", fullmatch=True))
def test_any_text_is_a_dsn_with_addresses_or_refused(text: str) -> None:
    try:
        dsn = read_dsn(text)
    except BadResource:
        return
    assert isinstance(dsn, Dsn)
    assert dsn.addresses
    assert all(a.startswith("postgresql://") and "/" not in a.removeprefix("postgresql://") for a in dsn.addresses)
