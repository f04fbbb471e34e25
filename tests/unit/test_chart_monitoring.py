"""What the chart's dashboard and alerts ask of Prometheus is what the operator declares."""

import re

import pytest

from fleetagent.adapters.metrics import catalogue
from fleetagent.adapters.metrics.process import ProcessSeries
from support.promtool import LABEL, MATCHED, SERIES, expressions, panels

TARGET_LABELS = {"instance", "job", "pod", "le"}
"""What Prometheus itself adds, and what a histogram has."""


def declared() -> dict[str, set[str]]:
    """The labels of every series, by its name."""
    known = {f.name: {"namespace", "name", *f.labels} for f in catalogue.FAMILIES}
    registry = ProcessSeries().registry
    for collector in registry._collector_to_names:
        labels = set(getattr(collector, "_labelnames", ()))
        known |= dict.fromkeys(registry._collector_to_names[collector], labels)
    return known | {"process_resident_memory_bytes": set()}  # prometheus-client's own, which it does not describe


@pytest.mark.parametrize("expression", dict.fromkeys(expressions()))
def test_every_series_and_label_that_is_asked_for_is_declared(expression: str) -> None:
    known = declared()
    asked = set(SERIES.findall(expression))

    assert asked <= known.keys()
    for metric, matchers in MATCHED.findall(expression):
        assert {label for label, _, _ in LABEL.findall(matchers)} <= known[metric]
    for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        for label in set(re.split(r",\s*", labels)) - TARGET_LABELS:
            assert any(label in known[metric] for metric in asked) or label == "namespace", label


def test_every_series_of_an_agent_is_drawn_or_asked_for() -> None:
    """A figure that nobody looks at costs each agent something."""
    everything = " ".join(expressions())
    unused = {f.name for f in catalogue.FAMILIES if f.name not in everything}

    assert unused == {
        "fleetagent_fleet_observed_timestamp_seconds",
        "fleetagent_last_run_id",
        "fleetagent_machines_limit",
        "fleetagent_notifications_total",
        "fleetagent_target_proofs_per_hour",
    }, "left for people's own questions"


def test_each_panel_says_what_it_shows() -> None:
    assert len({title for title, _ in panels()}) > 20
