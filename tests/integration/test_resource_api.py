"""The FleetAgent resource on a real API server: what it completes, keeps, explains, and what our models make of it."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings

from fleetagent.dev.apiserver import ApiError
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.domain.resource import (
    Condition,
    FleetAgent,
    FleetAgentSpec,
    FleetAgentStatus,
    FleetStatus,
    RunStatus,
    SessionStatus,
    SpendStatus,
    WakeStatus,
)
from support.cluster import eventually
from support.manifests import Json, a_manifest
from support.schemas import drawn_from

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.yaml"))
CRD = yaml.safe_load((REPOSITORY / "crds" / "fleetagents.yaml").read_text())  # the server's, not the models' of today
SPEC_SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def path_of(namespace: str) -> str:
    return f"/apis/fleetagent.dev/v1alpha1/namespaces/{namespace}/fleetagents"


def stored(control_plane: ControlPlane, manifest: Json, *, query: str = "") -> dict[str, Any]:
    return control_plane.api.call("POST", path_of(manifest["metadata"]["namespace"]) + query, manifest)


def test_the_least_manifest_is_stored_with_the_default_of_every_field(
    control_plane: ControlPlane, namespace: str
) -> None:
    written = a_manifest(namespace=namespace)["spec"]

    spec = stored(control_plane, a_manifest(namespace=namespace))["spec"]

    assert spec == {
        "mode": "Act",
        "target": {"proofsPerHour": 500, "tolerancePercent": 3},
        "schedule": {
            "debounce": {"idle": "5s", "max": "60s"},
            "skipUnchanged": True,
            "maxQuiet": "1h",
            "wakes": {"min": "1m", "max": "24h", "limit": 20},
        },
        "model": {**written["model"], "timeout": "120s", "maxOutputTokens": 2048},
        "context": {"tokenBudget": 30000, "toolResultChars": 200, "session": ""},
        "budget": written["budget"],
        "limits": {
            "maxInstances": 20,
            "minInstances": 0,
            "launchesPerRun": 2,
            "launchesPerHour": 6,
            "stopsPerRun": 2,
            "minInstanceAge": "30m",
        },
        "fleet": {
            "vast": {
                "baseURL": "https://console.vast.ai",
                "apiKeySecretRef": written["fleet"]["vast"]["apiKeySecretRef"],
                "offers": {
                    "minGpuRamGB": 16,
                    "minCpuRamGB": 240,
                    "minCpuCores": 25,
                    "minDiskGB": 250,
                    "minDownloadMbps": 100,
                    "minCudaVersion": "13.0",
                    "minReliability": 0.97,
                    "verified": True,
                },
                "instance": {
                    "image": "example/curio-prover:latest",
                    "diskGB": 250,
                    "env": {},
                    "onstart": "",
                    "workerURLEnv": "FLEETAGENT_URL",
                    "minProofsPerHour": 0,
                },
            },
            "timeouts": {"loading": "15m", "registered": "90m", "benchmarking": "45m"},
        },
        "demand": {"static": {"active": True}},
        "instructions": "",
        "fallback": "Hold",
        "approvalExpiry": "15m",
        "deletionPolicy": "Destroy",
        "retention": {"runs": "90d", "messages": "90d"},
    }


def test_a_part_that_is_given_by_half_gets_the_defaults_of_its_other_half(
    control_plane: ControlPlane, namespace: str
) -> None:
    halves = {
        "schedule": {"wakes": {"limit": 3}},
        "context": {"tokenBudget": 9000},
        "limits": {"maxInstances": 4},
        "retention": {"runs": "7d"},
        "pause": {"until": "2026-12-01T08:00:00Z"},
        "fleet": {"timeouts": {"loading": "5m"}, "vast": {"offers": {"gpuNames": ["RTX 5090"]}}},
    }

    spec = stored(control_plane, a_manifest(namespace=namespace, spec=halves))["spec"]

    assert spec["schedule"]["wakes"] == {"min": "1m", "max": "24h", "limit": 3}
    assert spec["schedule"]["debounce"] == {"idle": "5s", "max": "60s"}
    assert spec["context"]["toolResultChars"] == 200
    assert spec["limits"]["launchesPerHour"] == 6
    assert spec["retention"] == {"runs": "7d", "messages": "90d"}
    assert spec["pause"]["directions"] == ["Up"]
    assert spec["fleet"]["timeouts"]["registered"] == "90m"
    assert spec["fleet"]["vast"]["offers"]["minReliability"] == pytest.approx(0.97)


def test_a_schedule_by_cron_alone_is_accepted(control_plane: ControlPlane, namespace: str) -> None:
    schedule = {"cron": "*/5 * * * *", "timeZone": "Europe/Berlin"}

    spec = stored(control_plane, a_manifest(namespace=namespace, spec={"schedule": schedule}))["spec"]

    assert "interval" not in spec["schedule"]


@pytest.mark.parametrize(
    "spec",
    [
        {"schedule": {"interval": "10s"}},
        {"schedule": {"interval": "24h"}},
        {"schedule": {"interval": "1d"}},
        {"schedule": {"interval": "0d23h59m60s"}},
        {"schedule": {"cron": "0,30 8-18/2 1-31 JAN-MAR,12 MON-5", "timeZone": "Etc/GMT+5"}},
        {"budget": {"fleetUsdPerHour": "0", "fleetUsdPerDay": "0.00", "modelTokensPerDay": 0}},
        {"budget": {"usdPerProof": "0.000000001"}},
        {"target": {"proofsPerHour": 0, "tolerancePercent": 0}},
        {"model": {"usdPerMillionTokens": {"input": "0", "output": "0", "cachedInput": "0"}}},
        {"model": {"baseURL": "http://[::1]:8000/v1"}},
        {"model": {"parameters": {"temperature": 0.2, "extra_body": {"chat_template_kwargs": {"thinking": None}}}}},
        {"limits": {"minInstances": 20, "maxInstances": 20}},
        {"pause": {"until": "2026-12-01T09:00:00.5+01:00", "directions": ["Up", "Down"]}},
        {"fleet": {"vast": {"instance": {"env": {"_A1": "x" * 256}}}}},
        {"instructions": "ä" * 16_384},
    ],
    ids=str,
)
def test_a_value_on_the_border_is_accepted(control_plane: ControlPlane, namespace: str, spec: Json) -> None:
    body = stored(control_plane, a_manifest(namespace=namespace, spec=spec), query="?dryRun=All&fieldValidation=Strict")

    FleetAgent.stored(body)


def completed_unless_invalid(control_plane: ControlPlane, manifest: Json) -> Json | None:
    """The resource with its defaults, None when it is refused as invalid; any other error is an error."""
    try:
        return stored(control_plane, manifest, query="?dryRun=All")
    except ApiError as error:
        if error.status != 422:
            raise
        return None


def test_what_the_api_server_accepts_the_models_parse_and_complete_alike(
    control_plane: ControlPlane, namespace: str
) -> None:
    accepted, refused = 0, 0

    @settings(
        max_examples=150,
        database=None,
        derandomize=True,
        phases=[Phase.generate],  # an error names its field; making the spec smaller would take minutes
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(spec=drawn_from(SPEC_SCHEMA))
    def check(spec: Json) -> None:
        nonlocal accepted, refused
        body = completed_unless_invalid(control_plane, a_manifest(namespace=namespace) | {"spec": spec})
        if body is None:
            refused += 1
            return
        accepted += 1
        parsed = FleetAgentSpec.read(spec)
        assert parsed == FleetAgent.stored(body).spec
        assert parsed == FleetAgentSpec.read(parsed.to_wire())

    check()

    assert accepted >= 40, f"only {accepted} of {accepted + refused} were accepted: too few to show anything"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_accepted_as_it_stands(control_plane: ControlPlane, namespace: str, example: Path) -> None:
    manifest = yaml.safe_load(example.read_text())
    manifest["metadata"]["namespace"] = namespace

    body = stored(control_plane, manifest, query="?fieldValidation=Strict")

    FleetAgent.stored(body)


def a_full_status() -> FleetAgentStatus:
    return FleetAgentStatus(
        observed_generation=3,
        last_run_id=412,
        last_handled_request="a",
        last_handled_reset="b",
        last_handled_message="c",
        last_handled_acknowledge="d",
        last_handled_approve="e",
        last_handled_reject="f",
        last_handled_session="g",
        session=SessionStatus(
            id=4,
            started_at=NOON,
            messages=31,
            compactions=2,
            context_tokens=8123,
            estimated_tokens=8150,
            next_prompt_tokens=8300,
        ),
        last_run=RunStatus(
            id=412,
            triggers=("Schedule", "Wake"),
            started_at=NOON,
            finished_at=NOON,
            outcome="Acted",
            summary="launched 1x RTX 5090",
        ),
        next_run_at=NOON,
        pending_wakes=(WakeStatus(id=88, at=NOON, reason="check 33014980", asked_by_run=411),),
        fleet=FleetStatus(
            instances=11,
            proving=9,
            on_the_way=2,
            proofs_per_hour=Decimal("410.5"),
            projected_proofs_per_hour=Decimal(485),
            usd_per_hour=Decimal("3.42"),
            observed_at=NOON,
        ),
        spend=SpendStatus(fleet_usd_today=Decimal("51.2"), model_tokens_today=120_345),
        open_alerts=1,
        conditions=(
            Condition(
                type="Ready",
                status="True",
                observed_generation=3,
                last_transition_time=NOON,
                reason="Running",
                message="all is well",
            ),
        ),
    )


def test_no_status_field_is_pruned(control_plane: ControlPlane, namespace: str) -> None:
    body = stored(control_plane, a_manifest(namespace=namespace))
    status = a_full_status().to_wire()

    url = f"{path_of(namespace)}/porep"
    control_plane.api.call("PUT", f"{url}/status?fieldValidation=Strict", body | {"status": status})

    assert control_plane.api.call("GET", url)["status"] == status
    unset = [name for name, value in a_full_status() if value is None]
    assert not unset, "the test sets every field"


def test_the_table_shows_what_people_ask_first(control_plane: ControlPlane, namespace: str) -> None:
    body = stored(control_plane, a_manifest(namespace=namespace))
    url = f"{path_of(namespace)}/porep/status"
    control_plane.api.call("PUT", url, body | {"status": a_full_status().to_wire()})

    head, row = control_plane.kubectl("get", "fa", "-n", namespace).splitlines()
    columns = " ".join(head.split())

    assert columns == "NAME MODE TARGET PROJECTED INSTANCES USD/H TOKENS LAST RUN NEXT RUN READY AGE"
    assert row.split()[:7] == ["porep", "Act", "500", "485", "11", "3.42", "8123"]
    assert "2026-11-29T12:00:00Z" in row
    assert "invalid" not in row


def test_explain_says_what_a_field_means_and_its_unit(control_plane: ControlPlane) -> None:
    def explained(path: str) -> str:
        return " ".join(control_plane.kubectl("explain", path).split())

    eventually(lambda: "fleetagents" in control_plane.kubectl("api-resources"), "kubectl knows the resource")

    assert "in USD per hour, storage included" in explained("fleetagent.spec.budget")
    assert "in megabits per second" in explained("fleetagent.spec.fleet.vast.offers")
    assert "as the model's backend counted them" in explained("fleetagent.status.session")
