"""What stands for a spec."""

import pytest

from fleetagent.agent.subject import spec_hash
from support.manifests import Json, a_parsed_spec


@pytest.mark.parametrize(
    "changes",
    [
        {"context": {"session": "2026-12"}},
        {"context": {"tokenBudget": 30_000}},
        {"schedule": {"skipUnchanged": True}},
        {"mode": "Act"},
    ],
    ids=["a new session", "a default spelled out", "another", "the usual mode"],
)
def test_what_changes_nothing_leaves_the_hash_alone(changes: Json) -> None:
    assert spec_hash(a_parsed_spec(**changes)) == spec_hash(a_parsed_spec())


@pytest.mark.parametrize(
    "changes",
    [{"target": {"proofsPerHour": 501}}, {"context": {"tokenBudget": 20_000}}, {"mode": "DryRun"}],
    ids=["target", "token budget", "mode"],
)
def test_what_matters_changes_the_hash(changes: Json) -> None:
    assert spec_hash(a_parsed_spec(**changes)) != spec_hash(a_parsed_spec())
