"""Each refusal, whichever rule gave it, reaches the model, the ledger, an Event and the metric with the same words."""

import inspect
import re
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.acting import launch, stop
from fleetagent.domain import guardrails
from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.facts import Facts, Refusal
from fleetagent.domain.fleet import Fleet, Offer, Phase
from fleetagent.domain.guardrails import common
from fleetagent.domain.guardrails import launch as launch_rules
from fleetagent.domain.guardrails import stop as stop_rules
from fleetagent.domain.records import AgentKey, Asked
from support.fakes import QuietCluster
from support.fleets import NOW, ago, an_instance, an_offer, facts, unknown_fleet

SIX = [an_instance(name) for name in "123456"]
PAUSED = {"pause": {"until": "2026-12-01T08:00:00Z", "directions": ["Up", "Down"]}}

LAUNCHES: dict[str, Facts] = {
    "InstallationStopped": facts(installation_stop="ConfigMap fleetagent-stop exists"),
    "Suspended": facts(spec={"mode": "Suspended"}),
    "ModelBudgetUsedUp": facts(spec={"budget": {"modelTokensPerDay": 1}}, model_tokens_today=1),
    "FleetUnknown": facts(fleet=unknown_fleet()),
    "FleetStale": facts(fleet=Fleet((), ago(hours=1))),
    "DemandUnknown": facts(demand=DemandUnknown("no answer")),
    "Paused": facts(spec=PAUSED),
    "NoWorkerURL": facts(workers_can_report=False),
    "OnTarget": facts(*SIX),
    "TooManyInstances": facts(SIX[0], spec={"limits": {"maxInstances": 1}}),
    "LaunchesPerRun": facts(launches_this_run=2),
    "LaunchesPerHour": facts(launches_last_hour=6),
    "BillUnknown": facts(usd_spent_today=Decimal("NaN")),
    "OfferNotSeen": facts(offers_shown={}),
    "OfferGone": facts(offer_now=None),
    "OfferImplausible": facts(offer_now=an_offer(usd_per_hour="-1")),
    "OfferDearer": facts(offer_now=an_offer(usd_per_hour="0.60")),
    "OfferOutsideFilter": facts(offer_now=an_offer(verified=False)),
    "HostExcluded": facts(hosts_excluded={"m7001": NOW + timedelta(hours=1)}),
    "HostInUse": facts(an_instance("1", Phase.LOADING, machine_id="m7001")),
    "OverHourlyBudget": facts(spec={"budget": {"fleetUsdPerHour": "0.10"}}),
    "OverDailyBudget": facts(spec={"budget": {"fleetUsdPerDay": "0.10"}}),
    "TooDearPerProof": facts(spec={"budget": {"usdPerProof": "0.001"}}),
    "TooSlow": facts(
        offer_now=an_offer(measured_rate=120.0),
        spec={"fleet": {"vast": {"instance": {"minProofsPerHour": "120.1"}}}},
    ),
    "DryRun": facts(spec={"mode": "DryRun"}),
}
STOPS: dict[str, Facts] = {
    "Paused": facts(*SIX, spec=PAUSED),
    "UnknownInstance": facts(),
    "SameIntentInFlight": facts(an_instance("1", Phase.STOPPING), *SIX[1:]),
    "NotSeenYet": facts(replace(an_instance(None, Phase.REQUESTED), label="1")),
    "StopsPerRun": facts(*SIX, stops_this_run=2),
    "TooYoung": facts(an_instance("1", requested_at=NOW), *SIX[1:]),
    "BelowMinInstances": facts(*SIX, spec={"limits": {"minInstances": 6}}),
    "BelowTarget": facts(SIX[0]),
    "IdleCouldGo": facts(*SIX, an_instance("9", Phase.LOADING)),
    "DryRun": facts(*SIX, spec={"mode": "DryRun"}),
}
CASES = [("launch", code, told) for code, told in LAUNCHES.items()]
CASES += [("stop", code, told) for code, told in STOPS.items()]


@dataclass
class Books:
    """Remembers what was refused."""

    refused: list[tuple[str, str, Refusal]] = field(default_factory=list)

    async def refuse(self, run: Any, asked: Asked, refusal: Refusal, wish: Any) -> None:
        del run, wish
        self.refused.append((asked.kind, asked.by, refusal))


class AMarket:
    """Every offer is still there."""

    async def offer(self, *_: Any) -> Offer:
        return an_offer()

    def buying(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


def a_desk(told: Facts, books: Books, cluster: QuietCluster, metrics: Metrics) -> Any:
    """A run that finds these facts, whenever it looks."""

    async def found(*_: Any) -> Facts:
        return told

    async def nothing_new() -> None:
        """The resource is as it was when the run began."""

    agent = SimpleNamespace(metadata=SimpleNamespace(namespace="fleet", name="porep", uid="uid-1"))
    subject = SimpleNamespace(
        spec=told.spec, agent=agent, key=AgentKey("fleet", "porep"), record=SimpleNamespace(id=1), label_prefix="fa/x/"
    )
    return SimpleNamespace(
        subject=subject,
        run=SimpleNamespace(run_id=7),
        market=AMarket(),
        offers_shown=dict(told.offers_shown),
        facts=found,
        catch_up=nothing_new,
        services=SimpleNamespace(ledger=books, cluster=cluster, meter=metrics),
    )


@pytest.mark.parametrize(("kind", "code", "told"), CASES, ids=[f"{kind} {code}" for kind, code, _ in CASES])
async def test_a_refusal_reaches_model_ledger_event_and_metric(kind: str, code: str, told: Facts) -> None:
    books, cluster, metrics = Books(), QuietCluster(), Metrics()
    desk = a_desk(told, books, cluster, metrics)

    if kind == "launch":
        answer = await launch(desk, "7001", "because", "call-1", by="model")
    else:
        answer = await stop(desk, "1", "because", "call-1", by="model")

    said = answer["refused"]
    assert (answer["ok"], said["code"]) == (False, code)
    assert books.refused == [(kind, "model", Refusal(code, said["sentence"]))]
    assert cluster.events == [("ActionRefused", f"run 7: {kind} refused ({code}): {said['sentence']}")]
    assert counted(metrics) == {(kind, code): 1.0}


def test_no_code_of_the_guardrails_is_missing_here() -> None:
    sources = "".join(inspect.getsource(module) for module in (common, launch_rules, stop_rules))
    codes = set(re.findall(r'Refusal\(\s*"(\w+)"', sources)) | {guardrails.DRY_RUN, guardrails.NEEDS_APPROVAL}

    assert codes == {*LAUNCHES, *STOPS, guardrails.NEEDS_APPROVAL}, "what needs approval waits, and is no refusal"


def counted(metrics: Metrics) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["kind"], sample.labels["code"]): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if sample.name == "fleetagent_refusals_total"
    }
