"""What tools that know nothing of FleetAgents make of their status."""

from datetime import timedelta
from typing import Any

import pytest

from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.fleet import FleetUnknown
from fleetagent.domain.observation import LaunchProblem, Observation
from fleetagent.domain.records import Outcome
from fleetagent.domain.resource import FleetAgentStatus, crd
from fleetagent.domain.status import ONLY_AN_EDIT_HELPS, Finding, Health, findings, merged
from support.fleets import NOW, a_condition, an_instance, an_observation
from support.kstatus import kstatus
from support.manifests import a_parsed_spec

WELL = Health(model_asked=True, last_outcome=Outcome.HELD)
ON_TARGET = an_observation(*(an_instance(str(n)) for n in range(5)))
BELOW = an_observation(an_instance())
STOPPED = an_observation(launch_problem=LaunchProblem("InstallationStopped", "ConfigMap home/fleetagent-stop exists"))
WRONG_URL = FleetUnknown("no such host is allowed", None, "HostNotAllowed")
NO_SECRET = FleetUnknown("the Secret is not there", None, "SecretMissing")


def resource(seen: Observation | None, health: Health = WELL, *, generation: int = 3, **spec: Any) -> dict[str, Any]:
    """A stored resource whose third generation was reported on."""
    found = findings(a_parsed_spec(**spec), seen, health, NOW)
    status = FleetAgentStatus(observed_generation=3, conditions=merged((), found, NOW, 3))
    return {"metadata": {"generation": generation}, "status": status.to_wire()}


def test_what_nobody_has_looked_at_is_in_progress() -> None:
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    assert kstatus({"metadata": {"generation": 1}, "status": schema["properties"]["status"]["default"]}) == "InProgress"
    assert kstatus(resource(ON_TARGET, generation=4)) == "InProgress"
    assert kstatus(resource(None, Health())) == "InProgress"


@pytest.mark.parametrize(
    ("stored", "word"),
    [
        (resource(ON_TARGET), "Current"),
        (resource(BELOW), "Current"),
        (resource(ON_TARGET, pause={"until": "2099-01-01T00:00:00Z"}), "Current"),
        (resource(ON_TARGET, mode="DryRun"), "Current"),
        (resource(ON_TARGET, mode="Suspended"), "InProgress"),
        (resource(STOPPED), "InProgress"),
        (resource(an_observation(fleet=NO_SECRET)), "InProgress"),
        (resource(an_observation(demand=DemandUnknown("no answer"), target=None)), "InProgress"),
        (resource(ON_TARGET, Health(("Unavailable", "no answer"), model_asked=True)), "InProgress"),
        (resource(an_observation(fleet=WRONG_URL)), "Failed"),
        (resource(ON_TARGET, Health(model_asked=True, last_outcome=Outcome.CONTEXT_FULL)), "Failed"),
        (resource(ON_TARGET, Health(problems=(Finding("Ready", "False", "InvalidSchedule", "never"),))), "Failed"),
    ],
    ids=[
        "all is well",
        "machines are still wanted",
        "paused",
        "a dry run",
        "suspended",
        "the installation is stopped",
        "a Secret is missing",
        "no answer about demand",
        "no answer of the model",
        "an address that may not be opened",
        "a budget too small for the prompt",
        "a schedule that never comes",
    ],
)
def test_only_what_waits_for_an_edit_of_the_resource_has_failed(stored: dict[str, Any], word: str) -> None:
    assert kstatus(stored) == word
    types = [c["type"] for c in stored["status"]["conditions"]]
    assert ("Stalled" in types) == (word == "Failed")
    assert len(types) == len(set(types))


def test_stalled_says_what_ready_says_and_goes_when_the_resource_is_mended() -> None:
    stored = resource(an_observation(fleet=WRONG_URL))["status"]["conditions"]
    stalled, ready = ({**c, "type": "", "status": ""} for c in stored if c["type"] in {"Stalled", "Ready"})

    assert stalled == ready
    assert stalled["reason"] in ONLY_AN_EDIT_HELPS
    assert kstatus(resource(ON_TARGET)) == "Current"


def test_each_condition_is_one_that_metav1_would_take() -> None:
    later = NOW + timedelta(minutes=5)
    old = (a_condition("Ready", "True"),)
    made = merged(old, findings(a_parsed_spec(), BELOW, WELL, later), later, 7)

    for condition in made:
        wire = condition.to_wire()
        assert set(wire) == {"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}
        assert wire["observedGeneration"] == 7
        assert wire["reason"].isalnum()
        assert wire["reason"][0].isupper()
    assert next(c for c in made if c.type == "Ready").last_transition_time == NOW
