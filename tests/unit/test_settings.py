"""What an installation may set, and how a wrong value is told."""

from datetime import timedelta

import pytest

from fleetagent.errors import CannotStart
from fleetagent.settings import host_and_port, read_settings

URL = "postgresql://fleetagent:pa55word@db:5432/fleetagent"


@pytest.fixture(autouse=True)
def database_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one setting that has no default."""
    monkeypatch.setenv("FLEETAGENT_DATABASE_URL", URL)


def complaint(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> str:
    """What is said of this value."""
    monkeypatch.setenv(name, value)
    with pytest.raises(CannotStart) as caught:
        read_settings()
    return str(caught.value)


def test_all_but_the_database_has_a_default() -> None:
    settings = read_settings()

    assert settings.namespaces == ()
    assert settings.cluster == "default"
    assert settings.allowed_hosts == ()
    assert settings.worker_url is None
    assert settings.lease == timedelta(seconds=15)


def test_the_database_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETAGENT_DATABASE_URL")

    with pytest.raises(CannotStart, match=r"^FLEETAGENT_DATABASE_URL is not set$"):
        read_settings()


def test_an_empty_value_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETAGENT_CLUSTER", "")
    monkeypatch.setenv("FLEETAGENT_LEASE_SECONDS", "")
    monkeypatch.setenv("FLEETAGENT_NAMESPACES", "")

    settings = read_settings()

    assert (settings.cluster, settings.lease_seconds, settings.namespaces) == ("default", 15, ())


def test_the_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pa55word" not in repr(read_settings())
    assert "pa55word" not in complaint(monkeypatch, "FLEETAGENT_LEASE_SECONDS", "soon")


@pytest.mark.parametrize(
    ("text", "names"),
    [("a", ("a",)), ("a,b", ("a", "b")), (" a , ,b,", ("a", "b"))],
    ids=["one", "two", "spaces and gaps"],
)
def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch, text: str, names: tuple[str, ...]) -> None:
    monkeypatch.setenv("FLEETAGENT_NAMESPACES", text)
    monkeypatch.setenv("FLEETAGENT_ALLOWED_HOSTS", text)

    settings = read_settings()

    assert (settings.namespaces, settings.allowed_hosts) == (names, names)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("FLEETAGENT_LEASE_SECONDS", "2", "greater than or equal to 3"),
        ("FLEETAGENT_LEASE_SECONDS", "soon", "valid integer"),
        ("FLEETAGENT_BEAT_SECONDS", "0", "greater than or equal to 0.2"),
        ("FLEETAGENT_DATABASE_POOL", "1", "greater than or equal to 2"),
        ("FLEETAGENT_LOG_FORMAT", "xml", "'json' or 'text'"),
        ("FLEETAGENT_MARKET_PACING", "perhaps", "valid boolean"),
        ("FLEETAGENT_WEB_LISTEN", "8080", "must be host:port, such as 0.0.0.0:8080"),
        ("FLEETAGENT_HEALTH_LISTEN", "localhost:http", "must be host:port"),
        ("FLEETAGENT_WORKER_LISTEN", "0.0.0.0:65536", "must be host:port"),
        ("FLEETAGENT_WORKER_URL", "workers.example", "must start with http:// or https://"),
        ("FLEETAGENT_WORKER_URL", "https://", "must start with http:// or https:// and name a host"),
    ],
)
def test_a_wrong_value_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    said = complaint(monkeypatch, name, value)

    assert said.startswith(f"{name} is wrong: ")
    assert sentence in said
    assert "\n" not in said


def test_the_workers_url_loses_its_last_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETAGENT_WORKER_URL", "https://workers.example/base/")

    assert read_settings().worker_url == "https://workers.example/base"


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read_settings().cluster = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("listen", "parts"),
    [("10.0.0.1:8080", ("10.0.0.1", 8080)), ("[::1]:0", ("::1", 0)), (":8081", ("", 8081))],
)
def test_an_address_is_split_at_its_last_colon(listen: str, parts: tuple[str, int]) -> None:
    assert host_and_port(listen) == parts


def test_the_peering_is_a_name_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings().peering is None
    monkeypatch.setenv("FLEETAGENT_PEERING", "")
    assert read_settings().peering is None
    monkeypatch.setenv("FLEETAGENT_PEERING", "prod.fleetagent-1")
    assert read_settings().peering == "prod.fleetagent-1"

    assert complaint(monkeypatch, "FLEETAGENT_PEERING", "Prod Peering").startswith("FLEETAGENT_PEERING is wrong")


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080", "localhost:8080", "127.0.0.1.nip.io:1"]
)
def test_a_page_without_login_is_for_loopback_alone(monkeypatch: pytest.MonkeyPatch, listen: str) -> None:
    monkeypatch.setenv("FLEETAGENT_WEB_LISTEN", listen)

    said = complaint(monkeypatch, "FLEETAGENT_WEB_TOKEN", "a-token-of-somebody")

    assert said.startswith("FLEETAGENT_WEB_TOKEN is wrong: is for a FLEETAGENT_WEB_LISTEN on loopback alone")
    assert "a-token-of-somebody" not in said


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:8080"])
def test_on_loopback_a_page_needs_no_login(monkeypatch: pytest.MonkeyPatch, listen: str) -> None:
    monkeypatch.setenv("FLEETAGENT_WEB_LISTEN", listen)
    monkeypatch.setenv("FLEETAGENT_WEB_TOKEN", "a-token-of-somebody")

    assert read_settings().web_token is not None
    assert "a-token-of-somebody" not in repr(read_settings())
