"""What the demo hands to the operator, and how long it lasts."""

import argparse
from pathlib import Path

import pytest

from fleetagent.dev import demo
from fleetagent.dev.cluster_setup import SECRETS, example_agent
from fleetagent.dev.commands import environment
from fleetagent.dev.stack import operator_environment
from fleetagent.domain.resource import FleetAgent
from fleetagent.errors import CannotStart


def operator_settings(**environ: str) -> dict[str, str]:
    return operator_environment(Path("/k"), "postgresql://here", "its-token", environ)


def test_a_callers_settings_change_the_pace_and_never_the_connections() -> None:
    given = operator_settings(
        FLEETAGENT_BEAT_SECONDS="9",
        FLEETAGENT_DATABASE_URL="postgresql://production",
        FLEETAGENT_WEB_TOKEN="of-production",
        KUBECONFIG="/production",
    )

    assert given["FLEETAGENT_BEAT_SECONDS"] == "9"
    assert given["FLEETAGENT_DATABASE_URL"] == "postgresql://here"
    assert given["FLEETAGENT_WEB_TOKEN"] == "its-token"
    assert given["KUBECONFIG"] == "/k"


def test_the_operator_may_open_loopback_and_what_the_caller_allows() -> None:
    allowed = operator_settings(FLEETAGENT_ALLOWED_HOSTS="llm.example.com")["FLEETAGENT_ALLOWED_HOSTS"]

    assert allowed == "127.0.0.1,localhost,llm.example.com"


def test_simulators_get_none_of_the_callers_settings() -> None:
    assert not [name for name in environment({"FLEETAGENT_LOG_FORMAT": "json"}) if name.startswith("FLEETAGENT_")]


def test_the_example_is_a_valid_agent_at_the_demos_addresses_whose_secrets_exist() -> None:
    body = example_agent(model_url="http://127.0.0.1:2/v1", market_url="http://127.0.0.1:1")
    agent = FleetAgent.stored({**body, "metadata": {**body["metadata"], "uid": "u"}})
    vast = agent.spec.fleet.vast

    assert (agent.spec.model.base_url, vast.base_url) == ("http://127.0.0.1:2/v1", "http://127.0.0.1:1")
    assert vast.api_key_secret_ref.key in SECRETS[vast.api_key_secret_ref.name]
    assert vast.instance.env_from_secret_ref is not None
    assert vast.instance.env_from_secret_ref.name in SECRETS


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("soon", "'soon' is no duration like 90s"), ("90", "'90' is no duration"), ("0s", "must be longer than 0s")],
)
def test_a_bad_duration_is_refused_before_anything_starts(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CannotStart, match=complaint):
        demo.main(argparse.Namespace(lasting=text))

    assert list(tmp_path.iterdir()) == []
