"""What a real operator exports and logs: what each alert asks for, as the status has it, with the run in it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.asking import BY_HAND, ask, launch
from support.inhabited import an_empty_stage
from support.manifests import Json
from support.promtool import LABEL, MATCHED, SERIES, rules
from support.replicas import pretend, pretend_gone, start_replica, with_peering
from support.servers import MARKET_KEY
from support.slips import a_secret
from support.stage import NAME, Stage
from support.steering import apply_idle, hold_model, release_model

MONEY = {"fleetUsdPerHour": "4.00", "fleetUsdPerDay": "96.00", "modelTokensPerDay": 2_000_000}
WORDS = "a person is wanted here"
ALERT = {"name": "raise_alert", "arguments": {"severity": "warning", "message": WORDS}}
WAKE = {"name": "schedule_next_check", "arguments": {"minutes": 600, "reason": "to see it again"}}
NOBODY_LISTENS = "json://127.0.0.1:9/"


@dataclass
class Watched:
    """A stage whose operator is scraped again and again."""

    stage: Stage
    run_id: int = 0
    """The run that did a bit of everything."""
    seen: dict[tuple[str, frozenset[tuple[str, str]]], Sample] = field(default_factory=dict)
    """Every series that was ever scraped."""

    def scrape(self) -> dict[str, float]:
        """The series of the agent now, by name and labels of their own."""
        now: dict[str, float] = {}
        for family in text_string_to_metric_families(self.stage.metrics()):
            for sample in family.samples:
                self.seen[sample.name, frozenset(sample.labels.items())] = sample
                if sample.labels.get("name") == NAME:
                    own = ",".join(v for k, v in sorted(sample.labels.items()) if k not in {"name", "namespace"})
                    now[sample.name.removeprefix("fleetagent_") + (f" {own}" if own else "")] = sample.value
        return now

    def lines(self) -> list[dict[str, Any]]:
        """The operator's log."""
        return [json.loads(line) for line in self.stage.log().splitlines()]


@pytest.fixture(scope="module")
def watched(
    control_plane: ControlPlane,
    postgres_server: EmbeddedPostgres,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Watched]:
    """An agent that has reached its target, was refused something, and called for a person; now it rests."""
    folder = tmp_path_factory.mktemp("monitoring")
    with an_empty_stage(control_plane, postgres_server, migrated_template, folder) as (stage, _):
        it = Watched(stage)
        a_secret(stage, "pager", {"urls": NOBODY_LISTENS})
        stage.start_operator(log_format="json")
        hold_model(stage)
        alerts = {"notifySecretRef": {"name": "pager", "key": "urls"}}
        stage.apply(spec={"budget": MONEY, "alerts": alerts})
        on_target = ("OnTarget", "True")
        stage.wait_for(stage.runs, "it has begun")
        stage.annotate(requested_at="while it goes on")
        for series in ("run_started_timestamp_seconds", "oldest_trigger_timestamp_seconds"):
            stage.wait_for(lambda series=series: series in it.scrape(), f"{series} is shown")  # type: ignore[misc]
        release_model(stage)
        stage.wait_for(lambda: stage.status().get("conditions"), "the first report")
        stage.wait_for(lambda: it.scrape() and _says(stage, *on_target), "on target", 90)
        stage.wait_for(lambda: it.scrape() and stage.status()["fleet"]["onTheWay"] == 0, "all machines prove")
        stage.apply(spec={"budget": MONEY, "alerts": alerts, "schedule": BY_HAND})
        stage.wait_for(lambda: _has_ended(stage, "SpecChange"), "from now on runs come by request alone")
        (refused,) = ask(stage, [ALERT, WAKE, launch("7")], request="a bit of everything")
        it.run_id = refused["run_id"]
        stage.wait_for(lambda: it.scrape().get("open_alerts") == 1, "the alert is told")
        stage.wait_for(lambda: stage.status().get("lastRun", {}).get("id") == it.run_id, "the last run is told")
        yield it


def _has_ended(stage: Stage, trigger: str) -> bool:
    return any(trigger in run["triggers"] and run["state"] == "finished" for run in stage.runs())


def _says(stage: Stage, condition: str, status: str) -> bool:
    return stage.condition(condition).get("status") == status


def test_every_series_that_an_alert_asks_for_is_exported(watched: Watched) -> None:
    watched.stage.wait_for(lambda: watched.scrape().get("notifications_undelivered"), "the alert does not get out")
    exported = {sample.name for sample in watched.seen.values()}
    samples = list(watched.seen.values())

    for name, rule in rules().items():
        assert set(SERIES.findall(rule["expr"])) <= exported, name
        for metric, matchers in MATCHED.findall(rule["expr"]):
            asked = LABEL.findall(matchers)
            found = [s.labels for s in samples if s.name == metric and all(label in s.labels for label, _, _ in asked)]
            assert found, f"{name}: {metric} has no such labels as {matchers}"
            for label, sign, value in asked:
                if sign == "=":
                    assert value in {labels[label] for labels in found}, f"{name}: no {metric} with {label}={value}"


def test_the_figures_are_those_of_the_status_and_of_postgres(watched: Watched) -> None:
    stage = watched.stage

    def agree() -> bool:
        status = stage.status()
        found, told = watched.scrape(), _figures(status)
        # A bill that grows is told by each look, and written to the status with the next thing that happens.
        grown = found["spend_usd_today"] - float(status["spend"]["fleetUsdToday"])
        return told == {name: found.get(name) for name in told} and -1e-6 < grown < 0.10

    stage.wait_for(agree, "status and metrics say the same")
    found = watched.scrape()
    observed = datetime.fromisoformat(stage.status()["fleet"]["observedAt"]).timestamp()
    assert found["fleet_observed_timestamp_seconds"] >= observed - 60, "a new look alone is not written to the status"
    runs = {k: v for k, v in found.items() if k.startswith("runs_total ") and v}
    by_outcome: dict[str, float] = {}
    for name, count in runs.items():
        by_outcome[name.split()[1].split(",")[0]] = by_outcome.get(name.split()[1].split(",")[0], 0) + count
    rows = stage.rows("SELECT outcome, count(*) AS n FROM runs GROUP BY outcome")
    assert by_outcome == {row["outcome"]: row["n"] for row in rows}
    phases = stage.rows(
        "SELECT phase, count(*) AS n FROM instances WHERE phase NOT IN ('gone','failed') GROUP BY phase"
    )
    assert {k: v for k, v in found.items() if k.startswith("machines ")} == {
        f"machines {row['phase']}": row["n"] for row in phases
    }
    actions = stage.rows("SELECT kind, state, count(*) AS n FROM actions WHERE run_id > 0 GROUP BY kind, state")
    assert {k: v for k, v in found.items() if k.startswith("actions_total ")} == {
        f"actions_total {row['kind']},{row['state']}": row["n"] for row in actions
    }
    tokens = stage.rows("SELECT sum(tokens_in) AS input, sum(tokens_out) AS output FROM runs")[0]
    assert (found["model_tokens_total input"], found["model_tokens_total output"]) == (
        tokens["input"],
        tokens["output"],
    )
    assert found["last_run_id"] == watched.run_id
    assert found["pending_wakes"] == len(stage.rows("SELECT id FROM wakes WHERE state = 'pending'"))


def _figures(status: Json) -> dict[str, float]:
    fleet, spend, session = status["fleet"], status["spend"], status["session"]
    truths = {"True": 1.0, "False": 0.0, "Unknown": -1.0}
    return {
        "proofs_per_hour": float(fleet.get("proofsPerHour", 0)),
        "projected_proofs_per_hour": float(fleet["projectedProofsPerHour"]),
        "usd_per_hour": float(fleet["usdPerHour"]),
        "model_tokens_today": spend["modelTokensToday"],
        "context_tokens": session["contextTokens"],
        "next_prompt_tokens": session["nextPromptTokens"],
        "open_alerts": status["openAlerts"],
        "last_run_id": status["lastRunID"],
        "last_run_timestamp_seconds": datetime.fromisoformat(status["lastRun"]["startedAt"]).timestamp(),
        **{f"condition {c['type']}": truths[c["status"]] for c in status["conditions"]},
    }


def test_each_decision_is_a_line_with_the_agent_and_its_run(watched: Watched) -> None:
    agent, run_id = f"{watched.stage.namespace}/{NAME}", watched.run_id
    lines = watched.lines()
    of_the_run = [line for line in lines if line.get("run") == run_id]

    assert {line["agent"] for line in of_the_run} == {agent}
    outcomes = [(line["trigger"], line["outcome"]) for line in of_the_run if "outcome" in line]
    row = watched.stage.runs()[-1]
    called_for = ", ".join(row["triggers"])
    assert outcomes == [(called_for, row["outcome"])]
    assert any(line["message"].endswith(f"run {run_id}: {called_for}") for line in of_the_run), "its beginning"
    assert {"ActionRefused", "Alert"} <= {line["event"] for line in of_the_run if "event" in line}
    assert any("wake" in line["message"] and "to see it again" in line["message"] for line in of_the_run)
    launched = [line for line in lines if line.get("event") == "Launched"]
    assert launched
    assert all(f"run {line['run']}:" in line["message"] for line in launched)
    assert [line["agent"] for line in lines if line.get("lease") == "Taken"] == [agent]


def test_no_line_holds_a_secret(watched: Watched) -> None:
    tokens = re.findall(r"/workers/([\w-]{20,})", watched.stage.log())

    assert MARKET_KEY not in watched.stage.log()
    assert not tokens


def test_one_gets_from_an_event_to_its_run(watched: Watched) -> None:
    stage = watched.stage
    found = stage.cluster.api.call("GET", f"/api/v1/namespaces/{stage.namespace}/events")["items"]
    named = {e["reason"]: e["metadata"].get("annotations", {}).get("fleetagent.dev/run") for e in found}

    assert named["Alert"] == named["ActionRefused"] == str(watched.run_id)
    launched = [e for e in found if e["reason"] == "Launched"]
    assert launched
    for event in launched:
        assert event["message"].startswith(f"run {event['metadata']['annotations']['fleetagent.dev/run']}:")
    (alert,) = [e["message"] for e in found if e["reason"] == "Alert" and WORDS in e["message"]]
    assert alert.endswith(f"{WORDS} (run {watched.run_id})")


def test_an_agent_that_is_gone_has_no_series(watched: Watched) -> None:
    """The last one of the file: the agent goes."""
    stage = watched.stage
    stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--wait=false")

    stage.wait_for(lambda: not stage.resource(), "the resource is gone", 60)
    stage.wait_for(lambda: watched.scrape() == {}, "so are its series")


def test_a_replica_that_stands_by_tells_nothing_of_agents_and_all_of_it_when_its_turn_comes(stage: Stage) -> None:
    replica = start_replica(with_peering(stage))
    apply_idle(stage)
    about_it = f'name="{NAME}"'
    stage.wait_for(lambda: about_it in stage.metrics(), "it tells of the agent")
    stage.wait_for(lambda: "fleetagent_database_rows{" in stage.metrics(), "and of the tables")

    pretend(stage, "somebody")
    stage.wait_for(lambda: not replica.active, "it stands by")
    stage.wait_for(lambda: about_it not in stage.metrics(), "and tells nothing of the agent any more")
    assert "fleetagent_database_rows{" not in stage.metrics()
    assert 'fleetagent_lease_changes_total{change="HandedOver"} 1.0' in stage.metrics()

    pretend_gone(stage, "somebody")
    stage.wait_for(lambda: about_it in stage.metrics(), "it tells of it again")
