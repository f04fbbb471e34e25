"""What only the operator can know: each slip is a condition that names field and remedy, and an Event; others go on.

All slips stand in one namespace at once, beside an agent without any. Each is then mended, and nothing is restarted.
"""

import secrets
from collections.abc import Iterator

import pytest

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.manifests import Json
from support.servers import MARKET_KEY
from support.slips import IDLE, SLIPS, Slip, a_secret
from support.stage import Stage, a_stage

STEADY = "steady"


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
    if slip.condition != "AlertsDelivered":  # alerts that go nowhere keep no agent from its work
        assert condition(town, slip.name, "Ready")["status"] == "False"
    event = ("Warning", f"{slip.condition} is False: {bad['message']}"[:1000])
    town.wait_for(lambda: event in told(town, slip.name, slip.reason), f"an Event {slip.reason}")


def test_a_schedule_that_never_comes_is_no_loop(town: Stage) -> None:
    runs = "SELECT r.triggers FROM runs r JOIN agents a ON a.id = r.agent_id WHERE a.name = 'cron-impossible'"

    assert [r["triggers"] for r in town.rows(runs)] == [["Schedule"]]


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
