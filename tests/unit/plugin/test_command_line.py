"""The command line: kubectl's own options anywhere, usage errors with exit code 2, addresses that keep tokens safe."""

import base64
import json

import pytest

from fleetagent.errors import BadRequest
from fleetagent.plugin.__main__ import main
from fleetagent.plugin.apiserver import part
from fleetagent.plugin.parser import command_line
from fleetagent.plugin.tokens import account_of
from fleetagent.plugin.web import _params, checked


@pytest.mark.parametrize(
    "argv",
    [
        ["-n", "prod", "--context", "c", "status", "porep"],
        ["status", "porep", "-n", "prod", "--context", "c"],
        ["--context", "c", "status", "-n", "prod", "porep"],
    ],
)
def test_kubectls_options_stand_before_the_command_or_after_it(argv: list[str]) -> None:
    args = command_line().parse_args(argv)

    assert (args.namespace, args.context, args.kubeconfig, args.name) == ("prod", "c", None, "porep")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["status"],
        ["pause", "porep"],
        ["pause", "porep", "--for", "2h", "--until", "2026-12-01T08:00:00Z"],
        ["run", "porep", "first"],
        ["runs", "porep", "--limit", "0"],
        ["status", "porep", "-o", "xml"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_a_usage_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)

    assert ended.value.code == 2
    assert "usage: kubectl fleetagent" in capsys.readouterr().err


def test_without_a_kubeconfig_one_sentence_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--kubeconfig", "/nowhere/config"]) == 1
    assert capsys.readouterr().err == (
        "error: there is no kubeconfig at /nowhere/config: name one by --kubeconfig or $KUBECONFIG\n"
    )


@pytest.mark.parametrize(
    "url", ["https://fa.example.com/", "http://127.0.0.1:8080", "http://[::1]:1", "http://localhost"]
)
def test_a_server_is_reached_by_tls_or_on_this_machine(url: str) -> None:
    assert checked(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "http://fa.example.com",
        "http://10.0.0.1",
        "ftp://x",
        "fa.example.com",
        "https://a:b@x",
        "https://x/?a=b",
        "https://[::1",
        "https://x:99999",
        "https://",
    ],
)
def test_no_token_travels_readable_or_to_what_is_no_base_url(url: str) -> None:
    with pytest.raises(BadRequest, match="--server"):
        checked(url)


def a_token(claims: object) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


@pytest.mark.parametrize(
    ("token", "account"),
    [
        (a_token({"sub": "system:serviceaccount:team:viewer"}), ("team", "viewer")),
        (a_token({"sub": "jane@example.com"}), None),
        (a_token({"sub": 7}), None),
        (a_token([]), None),
        ("opaque", None),
        ("a.b.c", None),
    ],
)
def test_a_service_accounts_token_says_whose_it_is(token: str, account: tuple[str, str] | None) -> None:
    assert account_of(token) == account


def test_a_number_is_asked_for_as_a_number_and_a_choice_as_a_word() -> None:
    asked = {
        "limit": 1,
        "days": 0,
        "ended": True,
        "inPrompt": False,
        "after": None,
        "since": "2026-11-30T12:00:00+01:00",
    }

    assert _params(asked) == {
        "limit": "1",
        "days": "0",
        "ended": "true",
        "inPrompt": "false",
        "since": "2026-11-30T12:00:00+01:00",
    }


@pytest.mark.parametrize("name", ["", "..", "a/b", "a%2Fstatus", "A", "a b", "a?x=y", "a\n"])
def test_what_is_no_name_never_becomes_another_address(name: str) -> None:
    with pytest.raises(BadRequest, match="is no name"):
        part(name)
