"""The chart's alerts and dashboard, judged by Prometheus' own tool: each alert fires when it must, and only then."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.helm import Helm, the
from support.promtool import ALERTS, DASHBOARD, panels, promtool, rules

AGENT = 'namespace="prod",name="porep",job="fleetagent",instance="a"'
HERE = 'namespace="system",job="fleetagent",instance="a"'
FOR_EVER = "x600"


def agent(metric: str, values: str, more: str = "") -> tuple[str, str]:
    return f"fleetagent_{metric}{{{AGENT}{more and ',' + more}}}", values


def here(metric: str, values: str, more: str = "") -> tuple[str, str]:
    return f"fleetagent_{metric}{{{HERE}{more and ',' + more}}}", values


def truth(condition: str, value: int) -> tuple[str, str]:
    return agent("condition", f"{value}{FOR_EVER}", f'condition="{condition}"')


def counts(outcome: str, values: str, trigger: str = "Schedule") -> tuple[str, str]:
    return agent("runs_total", values, f'outcome="{outcome}",trigger="{trigger}"')


RUNNING = agent("run_started_timestamp_seconds", f"7000{FOR_EVER}")
"""Minute 116 of 120: the run that goes on is young."""

# Each line: the alert, its series as they are when it fires after two hours, and as they are when it does not.
# A scrape a minute; promtool's clock begins at 0.
CASES: tuple[tuple[str, list[list[tuple[str, str]]], list[list[tuple[str, str]]]], ...] = (
    (
        "FleetAgentNoRun",
        [[agent("last_run_timestamp_seconds", f"6000{FOR_EVER}"), agent("run_interval_seconds", f"300{FOR_EVER}")]],
        [
            [agent("last_run_timestamp_seconds", "0+60x600"), agent("run_interval_seconds", f"300{FOR_EVER}")],
            [
                agent("last_run_timestamp_seconds", f"6000{FOR_EVER}"),
                agent("run_interval_seconds", f"300{FOR_EVER}"),
                RUNNING,
            ],
            [agent("last_run_timestamp_seconds", f"6000{FOR_EVER}")],  # suspended, or by cron
        ],
    ),
    (
        "FleetAgentRunOverdue",
        [[agent("next_run_timestamp_seconds", f"6000{FOR_EVER}")]],
        [
            [agent("next_run_timestamp_seconds", f"7000{FOR_EVER}")],
            [agent("next_run_timestamp_seconds", f"6000{FOR_EVER}"), RUNNING],
        ],
    ),
    ("FleetAgentRunStuck", [[agent("run_started_timestamp_seconds", f"4000{FOR_EVER}")]], [[RUNNING]]),
    (
        "FleetAgentTriggerWaits",
        [[agent("oldest_trigger_timestamp_seconds", f"6000{FOR_EVER}")]],
        [
            [agent("oldest_trigger_timestamp_seconds", f"7000{FOR_EVER}")],
            [agent("oldest_trigger_timestamp_seconds", f"6000{FOR_EVER}"), RUNNING],
        ],
    ),
    (
        "FleetAgentRunsFail",
        [
            [counts("Failed", "0+0.2x600"), counts("Held", "0+0.1x600")],
            [counts("NoProgress", "0+0.1x600"), counts("Interrupted", "0+0.1x600", "Wake")],
        ],
        [[counts("Failed", "0+0.1x600"), counts("Held", "0+0.2x600")], [counts("Failed", "0x100 1x500")]],
    ),
    ("FleetAgentNotReady", [[truth("Ready", 0)]], [[truth("Ready", 1)], [truth("Ready", -1)]]),
    ("FleetAgentContextFull", [[truth("ContextFits", 0)]], [[truth("ContextFits", -1)]]),
    ("FleetAgentModelUnavailable", [[truth("ModelAvailable", 0)]], [[truth("ModelAvailable", -1)]]),
    (
        "FleetAgentModelErrors",
        [
            [
                agent("model_requests_total", "0+3x600", 'outcome="Unavailable"'),
                agent("model_requests_total", "0+2x600", 'outcome="Answered"'),
            ],
            [agent("model_requests_total", "0+1x600", 'outcome="Refused"')],
        ],
        [
            [
                agent("model_requests_total", "0+2x600", 'outcome="Unavailable"'),
                agent("model_requests_total", "0+3x600", 'outcome="Answered"'),
            ]
        ],
    ),
    (
        "FleetAgentOffTarget",
        [[truth("OnTarget", 0), agent("effective_target_proofs_per_hour", f"500{FOR_EVER}"), truth("Suspended", 0)]],
        [
            [truth("OnTarget", 0), agent("effective_target_proofs_per_hour", f"0{FOR_EVER}")],
            [truth("OnTarget", 0)],
            [truth("OnTarget", 1), agent("effective_target_proofs_per_hour", f"500{FOR_EVER}")],
            [truth("OnTarget", 0), agent("effective_target_proofs_per_hour", f"500{FOR_EVER}"), truth("Suspended", 1)],
            [
                agent("condition", "1x70 0x500", 'condition="OnTarget"'),  # for less than an hour
                agent("effective_target_proofs_per_hour", f"500{FOR_EVER}"),
            ],
        ],
    ),
    ("FleetAgentFleetUnknown", [[truth("FleetKnown", 0)]], [[truth("FleetKnown", -1)], [truth("FleetKnown", 1)]]),
    ("FleetAgentDemandUnknown", [[truth("DemandKnown", 0)]], [[truth("DemandKnown", -1)]]),
    (
        "FleetAgentMachineAdopted",
        [[agent("events_total", "0x90 1x500", 'reason="MachineAdopted",type="Warning"')]],
        [
            [agent("events_total", "0x30 1x500", 'reason="MachineAdopted",type="Warning"')],  # more than an hour ago
            [agent("events_total", "0+1x600", 'reason="Launched",type="Normal"')],
        ],
    ),
    ("FleetAgentActionWaits", [[agent("waiting_actions", f"2{FOR_EVER}")]], [[agent("waiting_actions", "0x117 2x9")]]),
    ("FleetAgentAlertOpen", [[agent("open_alerts", f"1{FOR_EVER}")]], [[agent("open_alerts", "0x100 1x500")]]),
    (
        "FleetAgentAlertsUndelivered",
        [[agent("notifications_undelivered", f"1{FOR_EVER}")]],
        [[agent("notifications_undelivered", f"0{FOR_EVER}")]],
    ),
    (
        "FleetAgentDayBudgetNearlySpent",
        [[agent("spend_usd_today", f"87{FOR_EVER}"), agent("budget_usd_per_day", f"96{FOR_EVER}")]],
        [
            [agent("spend_usd_today", f"86{FOR_EVER}"), agent("budget_usd_per_day", f"96{FOR_EVER}")],
            [agent("spend_usd_today", f"87{FOR_EVER}")],
        ],
    ),
    (
        "FleetAgentTokensNearlyUsedUp",
        [[agent("model_tokens_today", f"950{FOR_EVER}"), agent("budget_model_tokens_per_day", f"1000{FOR_EVER}")]],
        [[agent("model_tokens_today", f"890{FOR_EVER}"), agent("budget_model_tokens_per_day", f"1000{FOR_EVER}")]],
    ),
    ("FleetAgentOverBudget", [[truth("WithinBudget", 0)]], [[truth("WithinBudget", 1)]]),
    ("FleetAgentCreditLow", [[truth("CreditLasts", 0)]], [[truth("CreditLasts", -1)]]),
    (
        "FleetAgentNoActiveReplica",
        [[here("active", f"0{FOR_EVER}")], [("up", f"1{FOR_EVER}")], [here("active", "1x60 _x500")]],
        [
            [here("active", f"1{FOR_EVER}")],
            [
                here("active", f"0{FOR_EVER}"),
                ('fleetagent_active{namespace="system",job="fleetagent",instance="b"}', f"1{FOR_EVER}"),
            ],
        ],
    ),
    (
        "FleetAgentLeasesLost",
        [[here("lease_changes_total", "0+1x600", 'change="Lost"')]],
        [
            [
                here("lease_changes_total", "0+1x600", 'change="HandedOver"'),
                here("lease_changes_total", "0x600", 'change="Lost"'),
            ]
        ],
    ),
    (
        "FleetAgentStartsLate",
        [
            [
                here("run_start_delay_seconds_bucket", "0+1x600", 'le="30"'),
                here("run_start_delay_seconds_bucket", "0+2x600", 'le="60"'),
                here("run_start_delay_seconds_bucket", "0+2x600", 'le="+Inf"'),
            ]
        ],
        [
            [
                here("run_start_delay_seconds_bucket", "0+2x600", 'le="30"'),
                here("run_start_delay_seconds_bucket", "0+2x600", 'le="+Inf"'),
            ]
        ],
    ),
    (
        "FleetAgentMarketErrors",
        [
            [
                here("market_requests_total", "0+3x600", 'call="list",outcome="ServerError"'),
                here("market_requests_total", "0+2x600", 'call="list",outcome="Answered"'),
            ],
            [here("market_requests_total", "0+1x600", 'call="account",outcome="Auth"')],
        ],
        [
            [
                here("market_requests_total", "0+2x600", 'call="list",outcome="NoAnswer"'),
                here("market_requests_total", "0+3x600", 'call="list",outcome="Answered"'),
            ],
            [here("market_requests_total", "0+1x600", 'call="create",outcome="OfferGone"')],
        ],
    ),
    (
        "FleetAgentSchemaOutdated",
        [[here("status_fields_dropped", f"2{FOR_EVER}")]],
        [[here("status_fields_dropped", f"0{FOR_EVER}")]],
    ),
    (
        "FleetAgentDatabaseLarge",
        [
            [
                here("database_bytes", f"15000000000{FOR_EVER}", 'table="messages"'),
                here("database_bytes", f"9000000000{FOR_EVER}", 'table="runs"'),
            ]
        ],
        [[here("database_bytes", f"9000000000{FOR_EVER}", 'table="messages"')]],
    ),
)


def test_promtool_has_nothing_to_say_against_the_rules() -> None:
    said = promtool("check", "rules", "--lint-fatal", ALERTS)

    assert said.returncode == 0, said.stdout + said.stderr


def test_every_expression_of_the_dashboard_is_one_that_prometheus_reads(tmp_path: Path) -> None:
    rows = [{"record": f"panel:{number}", "expr": expression} for number, (_, expression) in enumerate(panels())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rows}]}))

    said = promtool("check", "rules", tmp_path / "panels.yaml")

    assert len(rows) > 30
    assert said.returncode == 0, said.stdout + said.stderr


def test_each_alert_has_its_cases() -> None:
    assert [name for name, _, _ in CASES] == list(rules())


def test_an_alert_fires_when_it_must_and_only_then(tmp_path: Path) -> None:
    """All in one call of promtool, whose own start takes longer than a case."""
    tests: list[dict[str, Any]] = []
    for name, firing, silent in CASES:
        for fires, worlds in ((True, firing), (False, silent)):
            tests += [_played(name, series, fires=fires) for series in worlds]
    told = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "told.yaml").write_text(yaml.safe_dump(told))

    said = promtool("test", "rules", tmp_path / "told.yaml")

    assert said.returncode == 0, said.stdout + said.stderr


def _played(name: str, series: list[tuple[str, str]], *, fires: bool) -> dict[str, Any]:
    counted = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)'
    return {
        "name": f"{name} {'fires' if fires else 'is silent'}",
        "interval": "1m",
        "input_series": [{"series": metric, "values": values} for metric, values in series],
        "promql_expr_test": [
            {"expr": counted, "eval_time": "120m", "exp_samples": [{"labels": "{}", "value": 1 if fires else 0}]}
        ],
    }


def test_whoever_is_woken_reads_whom_it_is_about_and_where_to_go_on() -> None:
    for name, rule in rules().items():
        notes = rule["annotations"]
        assert notes["runbook_url"] == f"RUNBOOK#{name.lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        about_an_agent = "fleetagent_active" not in rule["expr"] and "by (job" not in rule["expr"]
        if about_an_agent and name != "FleetAgentSchemaOutdated":
            assert "{{ $labels.namespace }}/{{ $labels.name }}" in notes["summary"], name


@pytest.mark.parametrize("name", list(rules()))
def test_each_alert_has_a_section_in_the_runbook(name: str) -> None:
    page = ALERTS.parents[3] / "docs" / "runbook" / "alerts.md"

    assert f"\n## {name}\n" in page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def helm() -> Helm:
    return Helm()


def test_alerts_and_dashboard_are_rendered_only_where_they_are_asked_for(helm: Helm) -> None:
    kinds = [each["kind"] for each in helm.rendered("porep", "system", {})]

    assert "PrometheusRule" not in kinds
    assert "ConfigMap" not in kinds


def test_the_release_has_the_alerts_as_they_are_tested_with_the_runbook_of_the_house(
    helm: Helm, tmp_path: Path
) -> None:
    asked = {
        "alerts": {"enabled": True, "labels": {"release": "prometheus"}, "runbookURL": "https://runbook.example/a"}
    }

    rule = the(helm.rendered("porep", "system", {"monitoring": asked}), "PrometheusRule")

    assert rule["metadata"]["labels"]["release"] == "prometheus"
    written = ALERTS.read_text(encoding="utf-8").replace("RUNBOOK#", "https://runbook.example/a#")
    assert rule["spec"] == yaml.safe_load(written)
    (tmp_path / "rendered.yaml").write_text(yaml.safe_dump(rule["spec"]))
    assert promtool("check", "rules", tmp_path / "rendered.yaml").returncode == 0


def test_the_release_has_the_dashboard_for_grafanas_sidecar(helm: Helm) -> None:
    asked = {"dashboard": {"enabled": True, "annotations": {"grafana_folder": "fleet"}}}

    found = the(helm.rendered("porep", "system", {"monitoring": asked}), "ConfigMap")

    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "fleet"}
    assert json.loads(found["data"]["fleetagent.json"]) == json.loads(DASHBOARD.read_text(encoding="utf-8"))
