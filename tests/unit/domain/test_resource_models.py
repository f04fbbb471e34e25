"""What the operator sees of a resource."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from pydantic import ValidationError

from fleetagent.domain.resource import (
    Annotation,
    Condition,
    CurioDemand,
    Direction,
    FleetAgentSpec,
    FleetAgentStatus,
    FleetStatus,
    Mode,
    RunStatus,
    StaticDemand,
    WakeStatus,
)
from fleetagent.errors import BadResource
from support.manifests import ABSENT, a_fleet_agent, a_parsed_spec

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
A_CONDITION = {"type": "Ready", "status": "True", "reason": "Running", "message": "", "lastTransitionTime": NOON}


def test_values_are_what_python_reckons_with() -> None:
    spec = a_parsed_spec(mode="DryRun", budget={"usdPerProof": "0.008"}, target={"tolerancePercent": 2.5})

    assert spec.mode is Mode.DRY_RUN
    assert spec.budget.usd_per_proof == Decimal("0.008")
    assert spec.target.tolerance_percent == Decimal("2.5")
    assert spec.limits.min_instance_age == timedelta(minutes=30)
    assert spec.fleet.vast.offers.gpu_names == ()


@pytest.mark.parametrize(
    ("schedule", "every"),
    [
        ({}, timedelta(minutes=5)),
        ({"interval": "90s"}, timedelta(seconds=90)),
        ({"cron": "0 * * * *"}, None),
    ],
    ids=["neither", "interval", "cron"],
)
def test_the_interval_is_five_minutes_where_neither_it_nor_cron_is_given(
    schedule: dict[str, str], every: timedelta | None
) -> None:
    assert a_parsed_spec(schedule=schedule).schedule.every == every


def test_the_demand_source_is_the_one_that_is_given() -> None:
    curio = {"dsnSecretRef": {"name": "curio-db", "key": "dsn"}}

    assert a_parsed_spec().demand.source == StaticDemand(active=True)
    assert isinstance(a_parsed_spec(demand={"static": ABSENT, "curio": curio}).demand.source, CurioDemand)


def test_two_demand_sources_are_an_error_even_if_they_were_let_through() -> None:
    demand = a_parsed_spec(demand={"http": {"url": "http://demand.test"}}).demand

    with pytest.raises(ValueError, match="exactly one source, not 2"):
        _ = demand.source


@pytest.mark.parametrize(
    ("direction", "seconds", "refused"),
    [(Direction.UP, -1, True), (Direction.UP, 0, False), (Direction.DOWN, -1, False)],
)
def test_a_pause_refuses_its_directions_until_its_end(direction: Direction, seconds: int, refused: bool) -> None:  # noqa: FBT001
    pause = a_parsed_spec(pause={"until": "2026-11-29T12:00:00Z", "directions": ["Up"]}).pause

    assert pause is not None
    assert pause.refuses(direction, NOON + timedelta(seconds=seconds)) is refused


def test_a_null_counts_as_a_field_left_out() -> None:
    assert a_parsed_spec(instructions=None, pause=None) == a_parsed_spec()


def test_a_field_that_nobody_knows_is_passed_over() -> None:
    assert a_parsed_spec(fromTheFuture={"a": 1}) == a_parsed_spec()


def test_a_spec_can_be_written_back_and_read_again() -> None:
    spec = a_parsed_spec(
        pause={"until": "2026-12-01T08:00:00Z"},
        model={"parameters": {"temperature": 0.2}, "usdPerMillionTokens": {"input": "0.40"}},
        fleet={"vast": {"offers": {"excludeMachines": [7]}}},
    )

    assert FleetAgentSpec.read(spec.to_wire()) == spec


def test_a_resource_knows_what_people_annotated() -> None:
    agent = a_fleet_agent(metadata={"annotations": {"fleetagent.dev/message": "prefer hosts in the EU"}})

    assert agent.said(Annotation.MESSAGE) == "prefer hosts in the EU"
    assert agent.said(Annotation.REQUESTED_AT) is None


def test_a_stored_spec_that_cannot_be_read_is_the_owners_to_mend() -> None:
    with pytest.raises(BadResource, match=r"^spec\.schedule\.interval: .*'5 minutes' is no duration") as bad:
        a_fleet_agent(spec={"schedule": {"interval": "5 minutes"}})

    assert bad.value.reason == "InvalidSpec"


def test_a_spoilt_status_does_not_take_the_run_counter_with_it() -> None:
    agent = a_fleet_agent(status={"lastRunID": 412, "session": {"id": "four"}, "lastHandledRequest": "x"})

    assert agent.status == FleetAgentStatus(last_run_id=412, last_handled_request="x")


def test_a_report_leaves_out_what_is_not_known() -> None:
    always = {"observedGeneration": -1, "pendingWakes": [], "waitingActions": [], "conditions": []}

    assert FleetAgentStatus(last_run_id=1).to_wire() == {"lastRunID": 1, **always}


def test_a_merge_patch_takes_stale_values_away_but_holds_no_null_in_its_lists() -> None:
    wakes = (WakeStatus(id=88, at=NOON),)

    patch = FleetAgentStatus(last_run_id=1, last_run=RunStatus(id=1), pending_wakes=wakes).to_merge_patch()

    assert patch["nextRunAt"] is None
    assert patch["lastRun"]["finishedAt"] is None
    assert patch["pendingWakes"] == [{"id": 88, "at": "2026-11-29T12:00:00Z"}]


def test_a_sentence_too_long_for_the_status_is_cut_and_says_so() -> None:
    run = RunStatus(id=1, summary="ä" * 2000)

    assert run.summary is not None
    assert len(run.summary.encode()) == 700
    assert run.summary.endswith("ä …")
    assert RunStatus(id=1, summary="short").summary == "short"


def test_a_report_gives_its_times_to_the_second() -> None:
    status = FleetAgentStatus(next_run_at=NOON + timedelta(milliseconds=999))

    assert status.to_wire()["nextRunAt"] == "2026-11-29T12:00:00Z"


def test_a_report_rounds_rates_to_cents_of_a_proof_and_money_to_hundredths_of_a_cent() -> None:
    fleet = FleetStatus(proofs_per_hour=Decimal("410.4567"), usd_per_hour=Decimal("3.42005"))

    assert fleet.to_wire() == {"proofsPerHour": 410.46, "usdPerHour": "3.42"}


@pytest.mark.parametrize("change", [{"status": "Maybe"}, {"reason": "two words"}, {"type": ""}, {"reason": ""}])
def test_a_condition_that_kubernetes_would_refuse_cannot_be_made(change: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Condition.read(A_CONDITION | change)


def test_models_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        a_parsed_spec().mode = Mode.ACT  # type: ignore[misc]
