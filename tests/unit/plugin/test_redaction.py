"""What a report must not hold."""

import pytest

from fleetagent.plugin.redaction import hidden_in, hidden_lines
from fleetagent.plugin.terminal import written

KEY = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.mark.parametrize(
    "secret",
    [
        "postgresql://fleet:hunter22@db:5432/fleetagent",
        "https://user:hunter22@example.com/x",
        "https://example.com/x?key=hunter22",
        "https://example.com/x?unheard=hunter22",
        "tgram://hunter22/4711",
        "http://127.0.0.1:8082/workers/hunter22/register",
        "Authorization: Bearer hunter22hunter22",
        "password=hunter22",
        "token: hunter22",
        "page/login?next=%2F#token=hunter22",
        "--api-key hunter22",
        "curl -u fleet:hunter22 x",
        "passwd=hunter22",
        "AWS_SECRET_ACCESS_KEY=hunter22",
        "Cookie: a=b; fleetagent=hunter22",
        "set-cookie: __Host-fleetagent=hunter22; Path=/",
        "https://hooks.slack.com/services/T0/B0/hunter22",
        "https://discord.com/api/webhooks/4711/hunter22",
        "https://api.telegram.org/bot4711:hunter22/sendMessage",
        "glpat-hunter22hunter22",
        "xoxb-4711-hunter22",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIhunter22\nhunter22==\n-----END RSA PRIVATE KEY-----",
        '{"tls": "-----BEGIN PRIVATE KEY-----\\nhunter22\\n-----END PRIVATE KEY-----"}',
        "mine-hunter22-mine",
    ],
)
def test_secrets_of_all_kinds_are_taken_out_of_text(secret: str) -> None:
    hidden = hidden_lines(f"first\nbefore {secret} after\nlast\n", ["hunter22"][: "mine" in secret])

    assert "hunter22" not in hidden
    assert hidden.startswith("first\nbefore ")
    assert hidden.endswith("\nlast\n")


def test_a_secret_is_hidden_before_a_long_text_is_folded_behind_the_word_that_tells() -> None:
    found = written(hidden_in({"note": f"{'words ' * 165}password: hunter22 and on"}), "yaml")

    assert found.count("\n") > 1
    assert "hunter22" not in found


def test_what_follows_a_flag_in_a_list_is_hidden_and_prices_of_tokens_are_kept() -> None:
    said = {"args": ["run", "--vast-api-key", "hunter22", "--beat", "5"], "usdPerMillionTokens": {"in": "0.20"}}

    assert hidden_in(said) == {**said, "args": ["run", "--vast-api-key", "[hidden]", "--beat", "5"]}


def test_a_markets_key_is_hidden_and_an_images_digest_is_not() -> None:
    assert hidden_lines(f"key {KEY}, image@sha256:{KEY}", ()) == f"key [hidden], image@sha256:{KEY}"


def test_what_people_keep_in_maps_and_scripts_is_hidden_and_the_rest_is_kept() -> None:
    spec = {
        "model": {
            "apiKeySecretRef": {"name": "llm", "key": "api-key"},
            "parameters": {"temperature": 0.2, "user": "x"},
        },
        "instance": {"env": {"WALLET": "hunter22"}, "onstart": "echo hunter22"},
        "context": {"tokenBudget": 30000},
        "odd": [{"password": "hunter22"}],
    }

    assert hidden_in(spec) == {
        "model": {
            "apiKeySecretRef": {"name": "llm", "key": "api-key"},
            "parameters": {"temperature": "[hidden]", "user": "[hidden]"},
        },
        "instance": {"env": {"WALLET": "[hidden]"}, "onstart": "[hidden]: 13 characters"},
        "context": {"tokenBudget": 30000},
        "odd": [{"password": "[hidden]: 8 characters"}],
    }


def test_the_manifest_that_kubectl_keeps_as_text_is_dropped() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{…hunter22…}", "fleetagent.dev/message": "hi"}

    assert hidden_in({"metadata": {"annotations": annotations, "managedFields": []}}) == {
        "metadata": {"annotations": {"fleetagent.dev/message": "hi"}}
    }


def test_a_log_of_any_length_is_kept_to_its_last_line() -> None:
    log = "".join(f"line {number} postgresql://a:hunter22@db/x\n" for number in range(5000))

    hidden = hidden_lines(log, ())

    assert hidden.count("\n") == 5000
    assert "line 4999" in hidden
    assert "hunter22" not in hidden
