"""The series of an agent end where its keeper ends."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.keeper import Keeper
from fleetagent.agent.triggers import Triggers
from fleetagent.domain.records import AgentKey
from support.fleets import NOW

POREP, OTHER = AgentKey("fleet", "porep"), AgentKey("fleet", "other")


def kept(*keys: AgentKey) -> tuple[Triggers, Metrics]:
    metrics, hour = Metrics(), timedelta(hours=1)
    keeping: Any = SimpleNamespace(look_every=hour, retry_after=hour, now=lambda: NOW, meter=metrics)
    triggers = Triggers(keeping, None)  # type: ignore[arg-type]  # nothing is deleted
    for key in keys:
        triggers._keepers[key] = Keeper(key, keeping)
        metrics.compacted(key, "Masked")
    return triggers, metrics


def told_of(metrics: Metrics, key: AgentKey) -> bool:
    return f'name="{key.name}"' in metrics.text().decode()


async def test_who_lets_go_of_one_agent_goes_on_to_tell_of_the_others() -> None:
    triggers, metrics = kept(POREP, OTHER)

    await triggers._let_go(POREP)

    assert (told_of(metrics, POREP), told_of(metrics, OTHER)) == (False, True)


async def test_who_rests_tells_of_none() -> None:
    triggers, metrics = kept(POREP, OTHER)
    metrics.conditions(AgentKey("fleet", "leaving"), ())
    metrics.said(AgentKey("fleet", "leaving"), "Warning", "DeletionWaits")

    await triggers.rest()

    assert b'namespace="fleet"' not in metrics.text()
