"""What only the operator can know: each slip is a condition that names field and remedy, and an Event; others go on.

All slips stand in one namespace at once, beside an agent without any. Each is then mended, and nothing is restarted.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.manifests import ABSENT, Json
from support.servers import MARKET_KEY
from support.stage import Stage, a_stage

NOWHERE = "http://127.0.0.1:1"
STEADY = "steady"


def vast(**changes: Any) -> Json:
    """Changes of spec.fleet.vast."""
    return {"fleet": {"vast": changes}}


@dataclass(frozen=True)
class Slip:
    """What is wrong with one agent, how that shows, and how it is mended: by a Secret's values or by another spec."""

    name: str
    spec: Callable[[Stage], Json]
    condition: str
    reason: str
    words: tuple[str, ...]
    secret: Mapping[str, str] | None = None
    mended_secret: Mapping[str, str] | None = None
    mended_spec: Callable[[Stage], Json] | None = None


def a_secret(stage: Stage, name: str, values: Mapping[str, str]) -> None:
    """Make the Secret, or give it these values."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": dict(values)}
    path = f"/api/v1/namespaces/{stage.namespace}/secrets"
    if stage.cluster.api.exists(f"{path}/{name}"):
        stage.cluster.api.call("PUT", f"{path}/{name}", body)
    else:
        stage.cluster.api.call("POST", path, body)


def key_in(secret: str) -> Callable[[Stage], Json]:
    """The market's key in this Secret."""
    return lambda _: vast(apiKeySecretRef={"name": secret, "key": "api-key"})


KEY = {"api-key": MARKET_KEY}
SLIPS = (
    Slip(
        "market-secret-missing",
        key_in("market-secret-missing"),
        "FleetKnown",
        "SecretMissing",
        ("spec.fleet.vast.apiKeySecretRef: Secret ", "/market-secret-missing does not exist: create it"),
        mended_secret=KEY,
    ),
    Slip(
        "market-key-missing",
        key_in("market-key-missing"),
        "FleetKnown",
        "SecretKeyMissing",
        ("spec.fleet.vast.apiKeySecretRef: Secret ", "has no key 'api-key': add it"),
        secret={"token": MARKET_KEY},
        mended_secret=KEY,
    ),
    Slip(
        "market-key-wrong",
        key_in("market-key-wrong"),
        "FleetKnown",
        "MarketKeyRefused",
        ("refuses the API key", "the Secret of spec.fleet.vast.apiKeySecretRef"),
        secret={"api-key": "not-the-key"},
        mended_secret=KEY,
    ),
    Slip(
        "market-url-wrong",
        lambda stage: vast(baseURL=f"{stage.market.base_url}/nowhere"),
        "FleetKnown",
        "FleetUnknown",
        ("spec.fleet.vast.baseURL", "404"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "market-host-forbidden",
        lambda _: vast(baseURL="http://169.254.169.254"),
        "FleetKnown",
        "HostNotAllowed",
        ("spec.fleet.vast.baseURL: host '169.254.169.254'", "FLEETAGENT_ALLOWED_HOSTS"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "environment-missing",
        lambda _: vast(instance={"envFromSecretRef": {"name": "environment-missing"}}),
        "CanLaunch",
        "SecretMissing",
        ("spec.fleet.vast.instance.envFromSecretRef: Secret ", "does not exist: create it"),
        mended_secret={"PROOF": "1"},
    ),
    Slip(
        "model-secret-missing",
        lambda _: {"model": {"apiKeySecretRef": {"name": "model-secret-missing", "key": "api-key"}}},
        "ModelAvailable",
        "SecretMissing",
        ("spec.model.apiKeySecretRef: Secret ", "does not exist: create it"),
        mended_secret={"api-key": "any"},
    ),
    Slip(
        "model-unreachable",
        lambda _: {"model": {"baseURL": f"{NOWHERE}/v1", "timeout": "1s"}},
        "ModelAvailable",
        "Unavailable",
        ("see that http://127.0.0.1:1/v1 is up", "spec.model.timeout"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "model-name-wrong",
        lambda _: {"model": {"name": "no-such-model"}},
        "ModelAvailable",
        "ModelNotFound",
        ("no model no-such-model; it offers qwen3.5-122b", "set spec.model.name"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "model-url-wrong",
        lambda stage: {"model": {"baseURL": f"{stage.model.url}/nowhere"}},
        "ModelAvailable",
        "BadURL",
        ("correct spec.model.baseURL",),
        mended_spec=lambda _: {},
    ),
    Slip(
        "demand-unreachable",
        lambda _: {"demand": {"static": ABSENT, "http": {"url": f"{NOWHERE}/demand"}}},
        "DemandKnown",
        "DemandUnknown",
        ("spec.demand.http.url: the demand source does not answer", "mend the source"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "demand-makes-no-sense",
        lambda stage: {"demand": {"static": ABSENT, "http": {"url": f"{stage.model.url}/models"}}},
        "DemandKnown",
        "DemandUnknown",
        ("spec.demand.http.url: the demand source's `active` is neither true nor false",),
        mended_spec=lambda _: {},
    ),
    Slip(
        "cron-impossible",
        lambda _: {"schedule": {"interval": ABSENT, "cron": "0 0 31 2 *"}},
        "Ready",
        "InvalidSchedule",
        ("spec.schedule.cron: '0 0 31 2 *' never comes", "correct it"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "not-built-yet",
        lambda _: {"mode": "Approve", "fallback": "Controller", "retention": {"runs": "30d"}},
        "SpecHonoured",
        "NotBuiltYet",
        ("spec.mode Approve", "spec.fallback Controller", "spec.retention"),
        mended_spec=lambda _: {},
    ),
)
IDLE = {"target": {"proofsPerHour": 0}}


@pytest.fixture(scope="module")
def town(
    control_plane: ControlPlane,
    postgres_server: EmbeddedPostgres,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    """One operator with every slip at once, and a steady agent that wants machines."""
    database, namespace = f"test_{secrets.token_hex(5)}", f"test-{secrets.token_hex(5)}"
    url = postgres_server.create_database(database, template=migrated_template)
    control_plane.kubectl("create", "namespace", namespace)
    with a_stage(control_plane, namespace, url, tmp_path_factory.mktemp("town")) as stage:
        for slip in SLIPS:
            if slip.secret is not None:
                a_secret(stage, slip.name, slip.secret)
            stage.apply(metadata={"name": slip.name}, spec={**IDLE, **slip.spec(stage)})
        stage.start_operator(beat_seconds="2", look_seconds="2")
        stage.apply(metadata={"name": STEADY})
        yield stage
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")
    postgres_server.drop_database(database)


def condition(stage: Stage, agent: str, name: str) -> Json:
    """One condition of one agent."""
    found = (stage.resource(agent).get("status") or {}).get("conditions", [])
    return next((c for c in found if c["type"] == name), {})


def told(stage: Stage, agent: str, reason: str) -> list[tuple[str, str]]:
    """Kind and message of the Events about this agent with this reason."""
    found = stage.cluster.api.call("GET", f"/api/v1/namespaces/{stage.namespace}/events")["items"]
    return [(e["type"], e["message"]) for e in found if e["involvedObject"]["name"] == agent and e["reason"] == reason]


@pytest.fixture(scope="module")
def mended(town: Stage) -> Stage:
    """The same after every slip was mended, at the same time and while the operator runs."""
    for slip in SLIPS:
        if slip.mended_secret is not None:
            a_secret(town, slip.name, slip.mended_secret)
        if slip.mended_spec is not None:
            town.apply(metadata={"name": slip.name}, spec={**IDLE, **slip.mended_spec(town)})
    return town


@pytest.mark.parametrize("slip", SLIPS, ids=[s.name for s in SLIPS])
def test_a_slip_is_a_condition_and_an_event_that_say_what_to_do(town: Stage, slip: Slip) -> None:
    town.wait_for(lambda: condition(town, slip.name, slip.condition).get("reason") == slip.reason, slip.reason)
    bad = condition(town, slip.name, slip.condition)
    assert bad["status"] == "False"
    assert [w for w in slip.words if w not in bad["message"]] == [], bad["message"]
    if slip.condition != "SpecHonoured":
        assert condition(town, slip.name, "Ready")["status"] == "False"
    town.wait_for(lambda: told(town, slip.name, slip.reason), f"an Event {slip.reason}")
    kind, message = told(town, slip.name, slip.reason)[0]
    assert kind == "Warning"
    assert message.startswith(f"{slip.condition} is False: ")


def test_the_agent_beside_them_reaches_its_target_and_goes_on(town: Stage) -> None:
    town.wait_for(lambda: condition(town, STEADY, "OnTarget").get("status") == "True", "OnTarget", 90)
    before = town.resource(STEADY)["status"]["lastRunID"]

    town.wait_for(lambda: town.resource(STEADY)["status"]["lastRunID"] > before, "one more run")

    assert condition(town, STEADY, "Ready")["status"] == "True"
    assert {r["name"] for r in town.rows("SELECT DISTINCT a.name FROM instances JOIN agents a ON a.id = agent_id")} == {
        STEADY
    }
    town.check_books()


@pytest.mark.parametrize("slip", SLIPS, ids=[s.name for s in SLIPS])
def test_what_is_mended_is_well_again_without_a_restart(mended: Stage, slip: Slip) -> None:
    mended.wait_for(lambda: condition(mended, slip.name, slip.condition).get("status") == "True", "it is well again")
    mended.wait_for(lambda: condition(mended, slip.name, "Ready").get("status") == "True", "Ready")


def test_the_log_holds_no_traceback_and_no_secret(town: Stage) -> None:
    assert "Traceback" not in town.log()
    assert MARKET_KEY not in town.log()
    assert "not-the-key" not in town.log()
