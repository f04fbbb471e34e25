"""What the series of an agent cost: they are kept, and written out, all the time, for a thousand of them."""

import tracemalloc
from decimal import Decimal

from fleetagent.adapters.metrics import Metrics
from fleetagent.domain.fleet import Phase
from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import FleetAgentStatus, FleetStatus, SpendStatus
from support.fleets import NOW, a_condition, an_instance, an_observation
from support.manifests import a_parsed_spec

AGENTS = 200
CONDITIONS = (
    "Ready",
    "FleetKnown",
    "DemandKnown",
    "ModelAvailable",
    "ControllerDeciding",
    "CanLaunch",
    "OnTarget",
    "WithinBudget",
    "CreditLasts",
    "ContextFits",
    "SpecHonoured",
    "SchemaCurrent",
    "Suspended",
)


def busy() -> Metrics:
    """Each agent has two machines, every condition, and a bit of a past."""
    metrics = Metrics()
    spec = a_parsed_spec(budget={"fleetUsdPerDay": "96.00", "modelTokensPerDay": 1000})
    seen = an_observation(an_instance(), an_instance("9002", Phase.LOADING))
    conditions = tuple(a_condition(name, "True") for name in CONDITIONS)
    for number in range(AGENTS):
        key = AgentKey(f"team-{number % 20}", f"agent-{number}")
        status = FleetAgentStatus(
            last_run_id=number,
            next_run_at=NOW,
            fleet=FleetStatus(proofs_per_hour=Decimal(number), usd_per_hour=Decimal(number) / 7, observed_at=NOW),
            spend=SpendStatus(fleet_usd_today=Decimal(number), model_tokens_today=number),
            open_alerts=0,
            conditions=conditions,
        )
        metrics.reported(key, spec, status, seen, wakes=1, waiting=0)
        for reason in ("Launched", "ActionRefused", "FleetChanged", "Compacted"):
            metrics.said(key, "Normal", reason)
        metrics.acted(key, "launch", "done")
        metrics.refused(key, "launch", "OnTarget")
    return metrics


def test_an_agent_takes_a_few_kilobytes_and_no_part_of_a_scrape_is_most_of_it() -> None:
    tracemalloc.start()
    try:
        metrics = busy()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    sizes = [len(part) for part in metrics.parts()]

    assert kept / AGENTS < 6_000
    assert sum(sizes) / AGENTS > 3_000
    assert max(sizes) < sum(sizes) / 3
