"""What Prometheus scrapes."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleetagent.adapters.metrics import MeteredModel, Metrics
from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.fleet import Phase
from fleetagent.domain.model import CallsFrom, ModelRequest, NothingUsable, RawCall, Reply, Usage
from fleetagent.domain.observation import Calls
from fleetagent.domain.records import AgentKey, Lease, Run
from fleetagent.domain.resource import FleetAgentStatus, FleetStatus, SpendStatus
from fleetagent.domain.retention import TableSize
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import BadReply, BadResource, FleetUnreadable, PromptTooLong, TryLater
from support.fleets import NOW, a_condition, an_instance, an_observation, unknown_fleet
from support.manifests import a_parsed_spec

POREP, OTHER = AgentKey("fleet", "porep"), AgentKey("fleet", "other")
REQUEST = ModelRequest(({"role": "user", "content": "?"},), (), 10, timedelta(seconds=1))


class Scripted:
    """Answers, or fails, as told."""

    def __init__(self, *lines: Reply | Exception) -> None:
        self._lines = list(lines)

    async def reply(self, request: ModelRequest) -> Reply:
        del request
        line = self._lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return line

    async def context_window(self) -> int | None:
        return 32_768

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return len(request.messages)


def a_reply(prompt: int | None, completion: int | None, cached: int | None) -> Reply:
    return Reply("yes", (), cut_off=False, usage=Usage(prompt, completion, cached), finish_reason="stop")


def scraped(metrics: Metrics) -> dict[str, float]:
    """Each sample as `name{label=value,…}`; the bounds of histograms left out."""
    return {
        f"{sample.name}{{{','.join(f'{k}={v}' for k, v in sorted(sample.labels.items()))}}}": sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }


async def test_requests_are_counted_by_what_they_came_to_and_tokens_as_the_server_counted_them() -> None:
    metrics = Metrics()
    failures = (TryLater("a"), PromptTooLong("b"), BadReply("c"), BadResource("ModelAvailable", "KeyRefused", "d"))
    model = MeteredModel(
        Scripted(a_reply(900, 40, 800), a_reply(1000, 60, None), *failures, FleetUnreadable("e")), metrics, POREP
    )

    for _ in range(2):
        await model.reply(REQUEST)
    for _ in range(5):
        with pytest.raises((TryLater, PromptTooLong, BadReply, BadResource)):
            await model.reply(REQUEST)

    found = scraped(metrics)
    about = "name=porep,namespace=fleet"
    outcomes = {
        word: found[f"fleetagent_model_requests_total{{{about},outcome={word}}}"]
        for word in ("Answered", "Unavailable", "PromptTooLong", "BadReply", "Refused")
    }
    assert outcomes == {"Answered": 2, "Unavailable": 2, "PromptTooLong": 1, "BadReply": 1, "Refused": 1}
    assert found["fleetagent_model_request_seconds_count{}"] == 7
    assert found[f"fleetagent_model_seconds_total{{{about}}}"] == found["fleetagent_model_request_seconds_sum{}"]
    tokens = {
        kind: found[f"fleetagent_model_tokens_total{{kind={kind},{about}}}"]
        for kind in ("input", "cached_input", "output")
    }
    assert tokens == {"input": 1900, "cached_input": 800, "output": 100}


async def test_a_request_that_is_cancelled_was_not_answered() -> None:
    metrics, asked = Metrics(), asyncio.Event()

    class Silent(Scripted):
        async def reply(self, request: ModelRequest) -> Reply:
            asked.set()
            await asyncio.Event().wait()
            return await super().reply(request)

    task = asyncio.create_task(MeteredModel(Silent(), metrics, POREP).reply(REQUEST))
    await asked.wait()
    task.cancel()
    await asyncio.wait({task})

    found = scraped(metrics)
    assert {name: value for name, value in found.items() if "model_requests" in name} == {
        "fleetagent_model_requests_total{name=porep,namespace=fleet,outcome=Cancelled}": 1
    }


async def test_tokens_of_an_answer_that_is_of_no_use_are_counted_too() -> None:
    metrics = Metrics()
    failure = NothingUsable("thoughts alone", a_reply(900, 500, None))

    with pytest.raises(NothingUsable):
        await MeteredModel(Scripted(failure), metrics, POREP).reply(REQUEST)

    found = scraped(metrics)
    assert found["fleetagent_model_tokens_total{kind=output,name=porep,namespace=fleet}"] == 500
    assert found["fleetagent_model_requests_total{name=porep,namespace=fleet,outcome=BadReply}"] == 1


async def test_calls_that_stood_in_text_are_counted_by_their_place() -> None:
    metrics = Metrics()
    reply = replace(a_reply(1, 1, 1), calls=(RawCall("a", "{}"), RawCall("b", "{}")), calls_from=CallsFrom.REASONING)

    await MeteredModel(Scripted(reply, a_reply(1, 1, 1)), metrics, POREP).reply(REQUEST)

    found = {key: value for key, value in scraped(metrics).items() if "misplaced" in key}
    assert found == {"fleetagent_model_misplaced_calls_total{name=porep,namespace=fleet,place=reasoning}": 2}


def test_compactions_are_counted_by_how_they_were_made() -> None:
    metrics = Metrics()
    for method in ("Masked", "Summary", "Summary", "Digest"):
        metrics.compacted(POREP, method)

    found = {key: value for key, value in scraped(metrics).items() if "compactions" in key}

    assert found == {
        "fleetagent_compactions_total{method=Digest,name=porep,namespace=fleet}": 1,
        "fleetagent_compactions_total{method=Masked,name=porep,namespace=fleet}": 1,
        "fleetagent_compactions_total{method=Summary,name=porep,namespace=fleet}": 2,
    }


def test_refusals_are_counted_by_kind_and_code() -> None:
    metrics = Metrics()
    for kind, code in (("launch", "OnTarget"), ("launch", "OnTarget"), ("stop", "TooYoung")):
        metrics.refused(POREP, kind, code)

    found = {key: value for key, value in scraped(metrics).items() if "refusals" in key}

    assert found == {
        "fleetagent_refusals_total{code=OnTarget,kind=launch,name=porep,namespace=fleet}": 2,
        "fleetagent_refusals_total{code=TooYoung,kind=stop,name=porep,namespace=fleet}": 1,
    }


async def test_an_agent_that_is_gone_leaves_no_series_and_others_keep_theirs() -> None:
    metrics = Metrics()
    for key in (POREP, OTHER):
        await MeteredModel(Scripted(a_reply(1, 1, 1)), metrics, key).reply(REQUEST)
        metrics.compacted(key, "Masked")
        metrics.refused(key, "launch", "OnTarget")

    metrics.forget(POREP)

    names = {key for key in scraped(metrics) if "name=porep" in key}
    assert not names
    assert any("name=other" in key for key in scraped(metrics))


def test_whether_it_is_our_turn_is_asked_at_each_scrape() -> None:
    metrics, turn = Metrics(), [True]
    assert b"fleetagent_active 1.0" in metrics.text()

    metrics.watch_turns(lambda: turn[0])
    turn[0] = False

    assert b"fleetagent_active 0.0" in metrics.text()


def a_run(run_id: int = 7, *kinds: Trigger, at: datetime = NOW) -> Run:
    return Run(Lease(1, 1), run_id, 1, 0, Calls(kinds or (Trigger.SCHEDULE,)), at)


def test_a_run_is_counted_by_its_end_and_its_first_trigger_and_shown_while_it_goes_on() -> None:
    metrics = Metrics()
    metrics.waits(POREP, NOW)

    metrics.run_began(POREP, a_run(7, Trigger.REQUEST, Trigger.EVENT), NOW - timedelta(seconds=3))
    during = scraped(metrics)
    metrics.run_ended(POREP, a_run(7, Trigger.REQUEST, Trigger.EVENT), "Acted")
    after = scraped(metrics)

    about = "name=porep,namespace=fleet"
    assert during[f"fleetagent_run_started_timestamp_seconds{{{about}}}"] == NOW.timestamp()
    assert during["fleetagent_run_start_delay_seconds_sum{}"] == 3
    assert f"fleetagent_oldest_trigger_timestamp_seconds{{{about}}}" not in during, "the run has taken it up"
    assert f"fleetagent_run_started_timestamp_seconds{{{about}}}" not in after
    assert after[f"fleetagent_runs_total{{{about},outcome=Acted,trigger=Request}}"] == 1
    assert after["fleetagent_run_duration_seconds_count{}"] == 1
    assert f"fleetagent_run_seconds_total{{{about}}}" in after


def test_a_run_that_was_not_known_to_be_due_says_nothing_of_delays() -> None:
    metrics = Metrics()

    metrics.run_began(POREP, a_run(), None)

    assert scraped(metrics)["fleetagent_run_start_delay_seconds_count{}"] == 0


def test_what_a_replica_kept_is_told_by_it_no_more_once_it_rests() -> None:
    metrics = Metrics()
    metrics.run_began(POREP, a_run(), None)
    metrics.acted(POREP, "launch", "done")
    metrics.tables({"runs": TableSize(rows=3, bytes=4096)})
    metrics.lease("HandedOver")
    assert 'name="porep"' in metrics.text().decode()

    metrics.rest()

    found = scraped(metrics)
    assert not [key for key in found if "porep" in key or "database" in key]
    assert found["fleetagent_agents{}"] == 0
    assert found["fleetagent_lease_changes_total{change=HandedOver}"] == 1, "what is its own stays"


def test_an_agents_name_cannot_break_the_text() -> None:
    metrics = Metrics()
    metrics.said(AgentKey('a"b\\c\nd', "x"), "Warning", "Alert")

    (sample,) = [
        sample
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if sample.name == "fleetagent_events_total"
    ]
    assert sample.labels["namespace"] == 'a"b\\c\nd'


def test_the_figures_of_a_report_are_those_of_the_status_and_of_the_spec() -> None:
    metrics, spec = Metrics(), a_parsed_spec(budget={"fleetUsdPerDay": "96.00"}, schedule={"interval": "5m"})
    seen = an_observation(an_instance(), an_instance("9002", Phase.LOADING))
    status = FleetAgentStatus(
        last_run_id=7,
        fleet=FleetStatus(proofs_per_hour=Decimal("99.5"), usd_per_hour=Decimal("1.25"), observed_at=NOW),
        spend=SpendStatus(fleet_usd_today=Decimal("51.20"), model_tokens_today=1234),
        open_alerts=2,
        conditions=(
            a_condition("Ready", "True"),
            a_condition("FleetKnown", "False"),
            a_condition("OnTarget", "Unknown"),
        ),
    )

    metrics.reported(POREP, spec, status, seen, wakes=31, waiting=22)

    found = {
        key.removeprefix("fleetagent_").replace("name=porep,namespace=fleet", ""): value
        for key, value in scraped(metrics).items()
        if "name=porep" in key
    }
    assert found == {
        "target_proofs_per_hour{}": 500,
        "effective_target_proofs_per_hour{}": 500,
        "proofs_per_hour{}": 99.5,
        "machines{,phase=loading}": 1,
        "machines{,phase=proving}": 1,
        "machines_limit{}": 20,
        "fleet_observed_timestamp_seconds{}": NOW.timestamp(),
        "usd_per_hour{}": 1.25,
        "budget_usd_per_hour{}": 4,
        "spend_usd_today{}": 51.2,
        "budget_usd_per_day{}": 96,
        "model_tokens_today{}": 1234,
        "context_budget_tokens{}": 30000,
        "pending_wakes{}": 31,
        "waiting_actions{}": 22,
        "open_alerts{}": 2,
        "last_run_id{}": 7,
        "run_interval_seconds{}": 300,
        "condition{condition=Ready,}": 1,
        "condition{condition=FleetKnown,}": 0,
        "condition{condition=OnTarget,}": -1,
        "runs_total{,outcome=Failed,trigger=Schedule}": 0,
        "events_total{,reason=MachineAdopted,type=Warning}": 0,
    }


def test_what_a_newer_report_does_not_say_any_more_has_no_series_any_more() -> None:
    metrics, spec = Metrics(), a_parsed_spec(budget={"fleetUsdPerDay": "96.00"})
    seen = an_observation(an_instance())
    stalled = FleetAgentStatus(conditions=(a_condition("Ready", "False"), a_condition("Stalled", "True")))
    metrics.reported(POREP, spec, stalled, seen, wakes=0, waiting=0)
    before = scraped(metrics)

    now = FleetAgentStatus(conditions=(a_condition("Ready", "True"),))
    unknown = replace(seen, fleet=unknown_fleet(), demand=DemandUnknown("no"), target=None)
    metrics.reported(POREP, a_parsed_spec(mode="Suspended"), now, unknown, wakes=0, waiting=0)

    assert {key.partition("{")[0] + key.partition("phase")[2] for key in before.keys() - scraped(metrics).keys()} == {
        "fleetagent_budget_usd_per_day",
        "fleetagent_effective_target_proofs_per_hour",
        "fleetagent_machines=proving}",
        "fleetagent_run_interval_seconds",
        "fleetagent_condition",
    }


def test_machines_are_counted_by_the_ledger_while_the_market_cannot_be_read() -> None:
    metrics = Metrics()
    seen = replace(an_observation(), fleet=unknown_fleet(an_instance(), an_instance("9002", Phase.STOPPING)))

    metrics.reported(POREP, a_parsed_spec(), FleetAgentStatus(), seen, wakes=0, waiting=0)

    found = {key: value for key, value in scraped(metrics).items() if "fleetagent_machines{" in key}
    assert found == {
        "fleetagent_machines{name=porep,namespace=fleet,phase=proving}": 1,
        "fleetagent_machines{name=porep,namespace=fleet,phase=stopping}": 1,
    }


def test_what_is_to_go_outside_is_told_of_agents_that_are_kept_and_want_it() -> None:
    metrics, pager = Metrics(), {"notifySecretRef": {"name": "pager", "key": "urls"}}

    def told() -> list[str]:
        return [line for line in metrics.text().decode().splitlines() if line.startswith("fleetagent_notif")]

    metrics.notified(POREP, "Failed")
    metrics.undelivered(POREP, 1)
    assert told() == [], "another replica keeps it"

    metrics.reported(POREP, a_parsed_spec(alerts=pager), FleetAgentStatus(), None, wakes=0, waiting=0)
    metrics.notified(POREP, "Failed")
    metrics.undelivered(POREP, 1)
    assert len(told()) == 2

    metrics.reported(POREP, a_parsed_spec(), FleetAgentStatus(), None, wakes=0, waiting=0)
    assert [line for line in told() if "undelivered" in line] == [], "nobody wants to be told any more"
