"""The database goes, hosts are not allowed, the process is asked to end: the operator says so, and goes on well."""

import contextlib
import re
import signal
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import psycopg

from fleetagent.dev.postgres import EmbeddedPostgres
from support.ports import free_port
from support.processes import started
from support.stage import NAME, Stage

IDLE = {"target": {"proofsPerHour": 0}}


@contextlib.contextmanager
def closed(server: EmbeddedPostgres, url: str) -> Iterator[None]:
    """Nobody gets into this database, and who was in it is cut off."""
    name = urlsplit(url).path.removeprefix("/")
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        yield
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_a_database_that_goes_is_said_and_work_goes_on_when_it_is_back(
    stage: Stage, postgres_server: EmbeddedPostgres
) -> None:
    health = f"127.0.0.1:{free_port()}"
    stage.start_operator(health_listen=health)
    stage.apply(spec=IDLE)
    stage.wait_for(lambda: stage.condition("Ready").get("status") == "True", "Ready")

    with closed(postgres_server, stage.database_url):
        stage.wait_for(lambda: stage.condition("Ready").get("reason") == "MemoryUnavailable", "it is said")
        refused = "not currently accepting connections"
        stage.wait_for(lambda: refused in stage.condition("Ready")["message"], "the database's own words")
        assert httpx.get(f"http://{health}/readyz", trust_env=False).status_code == 503
        assert httpx.get(f"http://{health}/healthz", trust_env=False).status_code == 200
        stage.annotate(requested_at="while it was away")
        stage.wait_for(lambda: stage.events("MemoryUnavailable"), "an Event")

    stage.wait_for(lambda: stage.condition("Ready").get("status") == "True", "Ready again")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "while it was away", "the request is served")
    assert httpx.get(f"http://{health}/readyz", trust_env=False).status_code == 200
    assert len(stage.events("MemoryUnavailable")) == 1
    said = re.findall("nothing is decided until .* tried again soon", stage.log())
    assert 1 <= len(said) <= 2 * len(set(said)), "not at each look"
    assert "Traceback" not in stage.log()
    stage.check_books()


def test_loopback_is_refused_by_name_too_until_the_installation_allows_it(stage: Stage) -> None:
    by_name = stage.market.base_url.replace("127.0.0.1", "localhost")
    stage.start_operator(allowed_hosts="")
    stage.apply(spec={**IDLE, "fleet": {"vast": {"baseURL": by_name}}})

    stage.wait_for(lambda: stage.condition("FleetKnown").get("reason") == "HostNotAllowed", "the market's host")
    stage.wait_for(lambda: stage.condition("ModelAvailable").get("reason") == "HostNotAllowed", "the model's host")
    assert "spec.fleet.vast.baseURL: host 'localhost' is a loopback" in stage.condition("FleetKnown")["message"]
    assert "spec.model.baseURL: host '127.0.0.1' is a loopback" in stage.condition("ModelAvailable")["message"]
    assert stage.model.requests() == []

    stage.restart_operator(allowed_hosts="localhost,127.0.0.1")
    stage.wait_for(lambda: stage.condition("Ready").get("status") == "True", "Ready")


def test_a_signal_ends_the_operator_well_and_hands_every_agent_back(stage: Stage) -> None:
    stage.model.put("hold")
    stage.start_operator(lease_seconds="300")
    stage.apply()
    stage.wait_for(lambda: stage.model.get("state")["held"] == 1, "a run goes on")

    process = stage.operators[-1]
    process.send_signal(signal.SIGTERM)

    assert process.wait(20) == 0
    assert stage.rows("SELECT * FROM agents WHERE lease_until IS NOT NULL") == []
    assert [r["state"] for r in stage.runs()] == ["interrupted"]
    assert "Traceback" not in stage.log()
    stage.model.delete("hold")
    stage.start_operator()
    stage.wait_for_target()
    assert [r["triggers"] for r in stage.runs()][:2] == [["Schedule"], ["Schedule"]]


def test_a_signal_ends_an_operator_that_still_waits_for_its_database() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/db"
        with started("operator", FLEETAGENT_DATABASE_URL=url) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                _, stderr = process.communicate(timeout=8)

    assert (process.returncode, stderr) == (0, "")


def test_a_status_is_written_only_when_it_says_something_new(stage: Stage) -> None:
    stage.start_operator(look_seconds="0.2")  # an idle fleet is looked at 30 times as seldom
    stage.apply(spec={**IDLE, "schedule": {"interval": "24h"}})
    stage.wait_for_runs(1)
    stage.wait_for(lambda: stage.condition("Ready").get("status") == "True", "Ready")
    settled = looks_after(stage, 2)

    then = looks_after(stage, 4)

    assert then["metadata"]["resourceVersion"] == settled["metadata"]["resourceVersion"]
    stage.annotate(requested_at="once")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "once", "the request is served")
    assert moved(stage.resource()) == moved(settled)
    stage.apply(spec={**IDLE, "schedule": {"interval": "23h"}})
    stage.wait_for(lambda: stage.status()["observedGeneration"] == 2, "the new spec is in the status")
    assert {c["observedGeneration"] for c in stage.status()["conditions"]} == {2}
    stage.cluster.kubectl("-n", stage.namespace, "wait", "--for=condition=Ready", f"fleetagent/{NAME}", "--timeout=20s")


def looks_after(stage: Stage, count: int) -> dict[str, dict[str, str]]:
    """The resource after so many more looks at the fleet."""
    before = len(stage.rows("SELECT 1 FROM samples"))
    stage.wait_for(lambda: len(stage.rows("SELECT 1 FROM samples")) >= before + count, f"{count} more looks")
    return stage.resource()


def moved(resource: dict[str, dict[str, str]]) -> dict[str, str]:
    """When each condition last changed its status."""
    conditions: list[dict[str, str]] = resource["status"]["conditions"]  # type: ignore[assignment]
    return {c["type"]: c["lastTransitionTime"] for c in conditions}
