"""Whose an agent is: told once for each change, however often it is looked at."""

import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.holding import Holding
from fleetagent.domain.records import AgentKey
from support.fleets import a_condition


def told(metrics: Metrics) -> dict[str, float]:
    lines = metrics.text().decode().splitlines()
    head = 'fleetagent_lease_changes_total{change="'
    return {line.removeprefix(head).partition('"')[0]: float(line.split()[-1]) for line in lines if head in line}


def test_each_change_is_counted_once_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    metrics = Metrics()
    holding = Holding(AgentKey("fleet", "porep"), metrics)

    holding.lost()
    holding.handed_over()
    assert told(metrics) == {"Taken": 0, "Lost": 0, "HandedOver": 0}, "it was never ours"
    for _ in range(3):
        holding.taken()
    holding.lost()
    holding.lost()
    holding.taken()
    holding.handed_over()

    assert told(metrics) == {"Taken": 2, "Lost": 1, "HandedOver": 1}
    assert [vars(record)["lease"] for record in caplog.records] == ["Taken", "Lost", "Taken", "HandedOver"]


def test_an_agent_that_another_process_has_taken_has_no_series_here() -> None:
    metrics, key = Metrics(), AgentKey("fleet", "porep")
    holding = Holding(key, metrics)
    holding.taken()
    metrics.compacted(key, "Masked")

    holding.lost()

    assert b'name="porep"' not in metrics.text()


def test_what_was_told_of_an_agent_after_it_was_lost_goes_at_the_next_look() -> None:
    metrics, key = Metrics(), AgentKey("fleet", "porep")
    holding = Holding(key, metrics)
    holding.taken()
    holding.lost()
    metrics.conditions(key, [a_condition("Ready", "False")])

    holding.lost()

    assert b'name="porep"' not in metrics.text()
    assert told(metrics)["Lost"] == 1
