"""From the version before this one to this one and back; and what a version does that is overtaken while it runs."""

import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from psycopg import sql

from fleetagent.adapters.postgres.revisions import head
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.asking import BY_HAND, LOOK, ask, launch, offers, script
from support.cluster import CRD
from support.helm import CHART, Helm
from support.ports import free_port
from support.processes import run
from support.servers import MARKET_KEY, a_market, a_model
from support.slips import a_secret
from support.stage import Stage
from support.steering import apply_idle, hold_model, release_model, request_and_wait, wait_until_held
from support.versions import CHART_BEFORE, SCHEMA_TO_COME, migrate, sources_before, sources_to_come

RELEASE, HOME, WATCHED = "fleetagent", "operators-home", "first"
BUSY = {"proofsPerHour": 5000}
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/fleetagents.fleetagent.dev"


@pytest.fixture
def apart() -> Iterator[ControlPlane]:
    """A Kubernetes API on which nothing of ours was ever installed."""
    with ControlPlane.start() as running:
        for name in (HOME, WATCHED):
            running.kubectl("create", "namespace", name)
        yield running


@pytest.fixture
def empty_database_url(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    name = f"test_{secrets.token_hex(5)}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def before(apart: ControlPlane, empty_database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """The previous version at work: its chart, its definition, its schema, its code."""
    helm(apart, "install", RELEASE, CHART_BEFORE)
    with a_market() as market, a_model() as model:
        stage = Stage(apart, WATCHED, HOME, empty_database_url, market, model, tmp_path, worker_port=free_port())
        a_secret(stage, "vast", {"api-key": MARKET_KEY})
        stage.sources = sources_before(tmp_path)
        assert migrate(stage.database_url, sources=stage.sources).code == 0
        try:
            stage.start_operator()
            yield stage
        finally:
            stage.end_operators()


def helm(cluster: ControlPlane, *arguments: str | Path) -> None:
    """Helm in the operators' namespace; a chart is given the namespace to watch."""
    values = {"namespaces": [WATCHED]} if arguments[0] in {"install", "upgrade"} else None
    Helm(cluster.kubeconfig).run(*arguments, "--namespace", HOME, values=values)


def definition_of(cluster: ControlPlane) -> Any:
    """The schema by which resources are judged now."""
    return cluster.api.call("GET", DEFINITION)["spec"]["versions"][0]["schema"]


def test_runs_wakes_triggers_and_machines_survive_the_upgrade_and_the_way_back(before: Stage) -> None:
    stage = before
    proofs(stage, 100)
    stage.annotate(message="[sim] wake in 36000")
    stage.wait_for(lambda: stage.status().get("pendingWakes"), "a wake is pending")
    wake = stage.status()["pendingWakes"][0]
    hold_model(stage)
    stage.annotate(requested_at="in flight")
    stage.wait_for(lambda: stage.model.get("state")["held"], "a run waits for the model")
    stage.kill_operator()
    release_model(stage)
    stage.annotate(message="said while nobody was there")
    upgrade(stage)

    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "in flight", "the trigger is served")
    stage.wait_for(lambda: called_for(stage, "Feedback") == 2, "what was said meanwhile is heard")
    proofs(stage, 200)
    assert stage.status()["pendingWakes"] == [wake]
    stage.wait_for_books()
    stage.kill_operator(signal.SIGTERM)
    go_back(stage)

    proofs(stage, 300)
    assert stage.status()["pendingWakes"] == [wake]
    runs = stage.runs()
    assert [r["run_id"] for r in runs] == list(range(1, len(runs) + 1))
    assert [r["state"] for r in runs].count("interrupted") == 1
    stage.wait_for_books()
    helm(stage.cluster, "uninstall", RELEASE)
    assert stage.resource()["status"]["lastRunID"] == runs[-1]["run_id"]


def proofs(stage: Stage, per_hour: int) -> None:
    """Ask for this rate, and wait until a run has added the machine that it takes."""
    machines = len(stage.market.live())
    budget = {"fleetUsdPerHour": "9.00"}
    stage.apply(spec={"target": {"proofsPerHour": per_hour}, "budget": budget, "schedule": BY_HAND})
    stage.wait_for(lambda: len(stage.market.live()) > machines, "a machine more")
    stage.wait_for(lambda: stage.status().get("lastRun", {}).get("outcome") == "Acted", "the run is reported")


def upgrade(stage: Stage) -> None:
    """As docs/how-to/helm.md says."""
    definition = definition_of(stage.cluster)
    stage.cluster.kubectl("apply", "--server-side", "-f", str(CHART / "crds"))
    helm(stage.cluster, "upgrade", RELEASE, CHART)
    (new,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    assert definition_of(stage.cluster) == new["schema"] != definition
    stage.sources = None
    stage.start_operator(peering="fleetagent")


def go_back(stage: Stage) -> None:
    """The older version refuses the newer schema until the newer one has taken it back."""
    refused = migrate(stage.database_url, sources=sources_before(stage.folder)).line
    assert "upgrade the operator" in refused
    assert migrate(stage.database_url, "--to", "0001").code == 0
    helm(stage.cluster, "rollback", RELEASE)
    stage.sources = sources_before(stage.folder)
    stage.start_operator()


def called_for(stage: Stage, kind: str) -> int:
    """How many runs that came to their end were called for by this."""
    return sum(kind in run["triggers"] and run["state"] == "finished" for run in stage.runs())


def test_a_version_that_is_overtaken_in_the_middle_of_a_run_writes_nothing_more(stage: Stage, tmp_path: Path) -> None:
    health = f"127.0.0.1:{free_port()}"
    stage.start_operator(health_listen=health)
    ask(stage, [LOOK], target=BUSY)
    script(stage, [launch(offers(stage)[0])])
    hold_model(stage)
    stage.annotate(requested_at="buy")
    wait_until_held(stage, runs=2)

    to_come = sources_to_come(tmp_path)
    assert migrate(stage.database_url, sources=to_come).code == 0
    contents = everything_in(stage)
    release_model(stage)
    stage.annotate(message="do you hear me")
    stage.wait_for(
        lambda: f"schema {SCHEMA_TO_COME}" in stage.condition("Ready").get("message", ""), "the condition says why"
    )
    readiness = httpx.get(f"http://{health}/readyz", trust_env=False)

    assert readiness.status_code == 503
    assert f"schema {SCHEMA_TO_COME}" in readiness.text
    assert everything_in(stage) == contents
    assert stage.market.get("state")["calls"]["create"] == 0

    stage.kill_operator()
    stage.sources = to_come
    stage.start_operator()
    stage.wait_for(lambda: called_for(stage, "Feedback"), "the version to come goes on")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "buy", "with what was called for")
    stage.wait_for_books()


def everything_in(stage: Stage) -> dict[str, str]:
    """A digest of each table."""
    with psycopg.connect(stage.database_url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        digest = sql.SQL("SELECT md5(coalesce(string_agg(it::text, '' ORDER BY it::text), '')) FROM {} AS it")
        found = {name: connection.execute(digest.format(sql.Identifier(name))).fetchone() for (name,) in names}
    return {name: str(row[0]) for name, row in found.items() if row}


@pytest.mark.parametrize("command", ["operator", "migrate"])
def test_what_a_newer_version_has_migrated_is_refused_with_the_way_out(
    database_url: str, tmp_path: Path, command: str
) -> None:
    assert migrate(database_url, sources=sources_to_come(tmp_path)).code == 0

    line = run(command, FLEETAGENT_DATABASE_URL=database_url).line

    assert "upgrade the operator" in line
    assert f"`fleetagent migrate --to {head()}`" in line
    assert migrate(database_url, "--to", head(), sources=tmp_path / "to-come").code == 0
    assert migrate(database_url).code == 0


def test_an_idle_version_that_is_overtaken_and_comes_back_goes_on_by_itself(stage: Stage, tmp_path: Path) -> None:
    stage.start_operator()
    apply_idle(stage)
    to_come = sources_to_come(tmp_path)
    migrate(stage.database_url, sources=to_come)
    stage.wait_for(lambda: stage.condition("Ready").get("status") == "False", "it stands by")

    migrate(stage.database_url, "--to", head(), sources=to_come)

    request_and_wait(stage, "afterwards")
    stage.wait_for(lambda: stage.condition("Ready").get("status") == "True", "it is well again")
    assert [r["run_id"] for r in stage.runs()] == [1, 2]
