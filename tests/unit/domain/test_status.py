"""Facts become conditions; each says what is the case, and what to do where it is not well."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fleetagent.domain.conversation.counts import Clip, Counts
from fleetagent.domain.conversation.window import Anchor
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import FleetUnknown, Phase
from fleetagent.domain.observation import LaunchProblem, Observation
from fleetagent.domain.records import Outcome
from fleetagent.domain.status import Finding, Health, findings, merged
from support.fleets import NOW, a_condition, an_instance, an_observation
from support.manifests import a_parsed_spec

PROVING = an_observation(*(an_instance(str(n)) for n in range(5)))
WELL = Health(model_asked=True, last_outcome=Outcome.HELD)


def found(seen: Observation | None = PROVING, health: Health = WELL, **spec: Any) -> dict[str, Finding]:
    """Every finding by its type."""
    return {f.type: f for f in findings(a_parsed_spec(**spec), seen, health, NOW)}


def told(finding: Finding) -> tuple[str, str]:
    """Status and reason."""
    return finding.status, finding.reason


def test_where_all_is_well_every_condition_says_so() -> None:
    assert {f.type: told(f) for f in found().values()} == {
        "Suspended": ("False", "Running"),
        "FleetKnown": ("True", "Listed"),
        "DemandKnown": ("True", "Active"),
        "ModelAvailable": ("True", "Answers"),
        "ControllerDeciding": ("False", "NoFallback"),
        "CanLaunch": ("True", "NothingMissing"),
        "OnTarget": ("True", "Reached"),
        "WithinBudget": ("True", "Affordable"),
        "CreditLasts": ("Unknown", "AccountNotRead"),
        "ContextFits": ("True", "Fits"),
        "SpecHonoured": ("True", "AllFields"),
        "SchemaCurrent": ("True", "NothingDropped"),
        "Ready": ("True", "Running"),
    }


def test_before_the_first_look_nothing_is_claimed() -> None:
    unseen = found(None, Health())

    assert {f.status for f in unseen.values()} == {"Unknown", "False", "True"}
    assert {name for name, f in unseen.items() if f.status == "Unknown"} == {
        "FleetKnown",
        "DemandKnown",
        "ModelAvailable",
        "CanLaunch",
        "OnTarget",
        "WithinBudget",
        "CreditLasts",
        "Ready",
    }


@pytest.mark.parametrize(
    ("seen", "name", "reason"),
    [
        (an_observation(fleet=FleetUnknown("no list")), "FleetKnown", "FleetUnknown"),
        (an_observation(fleet=FleetUnknown("no key", None, "SecretMissing")), "FleetKnown", "SecretMissing"),
        (an_observation(demand=DemandUnknown("no answer"), target=None), "DemandKnown", "DemandUnknown"),
        (an_observation(demand=DemandUnknown("no", "HostNotAllowed"), target=None), "DemandKnown", "HostNotAllowed"),
        (an_observation(launch_problem=LaunchProblem("SecretMissing", "no env")), "CanLaunch", "SecretMissing"),
    ],
)
def test_what_cannot_be_known_is_false_with_its_cause_and_nothing_is_ready(
    seen: Observation, name: str, reason: str
) -> None:
    conditions = found(seen)

    assert told(conditions[name]) == ("False", reason)
    assert told(conditions["Ready"]) == ("False", reason)
    assert conditions["Ready"].message == f"{name}: {conditions[name].message}"


def test_a_model_that_failed_is_told_until_it_answers() -> None:
    failed = Health(("Unreachable", "no answer"), model_asked=True, last_outcome=Outcome.FAILED, last_error="no answer")

    assert told(found(health=failed)["ModelAvailable"]) == ("False", "Unreachable")
    assert told(found(health=failed)["Ready"]) == ("False", "Unreachable")
    assert told(found(health=WELL)["ModelAvailable"]) == ("True", "Answers")


def test_what_is_known_of_the_model_outlives_the_process() -> None:
    before = (a_condition("ModelAvailable", "False", "KeyRefused", message="the key is refused"),)

    after = {f.type: f for f in findings(a_parsed_spec(), PROVING, Health(), NOW, before)}

    assert after["ModelAvailable"] == Finding("ModelAvailable", "False", "KeyRefused", "the key is refused")


@pytest.mark.parametrize(
    ("machines", "told_of_it", "words"),
    [
        ([an_instance("1"), an_instance("2")], ("False", "BelowTarget"), "projected 200 of 500 proofs/h, 200 measured"),
        ([an_instance(str(n), Phase.LOADING) for n in range(6)], ("True", "OnTheWay"), "projected 558 of 500"),
        ([an_instance(str(n), measured_rate=97.0) for n in range(5)], ("True", "Reached"), "485 measured"),
    ],
    ids=["too few", "they are on their way", "at the tolerance"],
)
def test_on_target_tells_figures(machines: list[Any], told_of_it: tuple[str, str], words: str) -> None:
    finding = found(an_observation(*machines))["OnTarget"]

    assert told(finding) == told_of_it
    assert words in finding.message


@pytest.mark.parametrize(
    ("hourly", "spent", "status"),
    [("2.50", "0", "True"), ("2.49", "0", "False"), ("2.50", "48.00", "True"), ("2.50", "48.01", "False")],
    ids=["the hour's cap", "a cent over", "the day's cap", "a cent over that"],
)
def test_the_budget_is_kept_up_to_its_last_cent(hourly: str, spent: str, status: str) -> None:
    seen = an_observation(*(an_instance(str(n)) for n in range(5)), usd_spent_today=spent)

    finding = found(seen, budget={"fleetUsdPerHour": hourly, "fleetUsdPerDay": "48.00"})["WithinBudget"]

    assert finding.status == status
    assert f"2.50 of {hourly} USD per hour" in finding.message


def test_a_prompt_that_does_not_fit_says_what_to_raise() -> None:
    full = Health(model_asked=True, last_outcome=Outcome.CONTEXT_FULL)

    finding = found(health=full)["ContextFits"]

    assert told(finding) == ("False", "ContextFull")
    assert finding.message == "the prompt does not fit spec.context.tokenBudget: raise it"


ANCHOR = Anchor(9_000, 8_000)
TOLD = Counts("server model", "v", 3, (ANCHOR,), ANCHOR)


@pytest.mark.parametrize(
    ("counts", "told_of_it", "words"),
    [
        (TOLD, ("True", "Fits"), "fits its token budget"),
        (
            replace(TOLD, clip=Clip(4_096, 9_300)),
            ("False", "PromptClipped"),
            "counted 4096 tokens in a prompt of about 9",
        ),
        (replace(TOLD, clip=Clip(4_096, 9_300)), ("False", "PromptClipped"), "(Ollama: num_ctx)"),
        (
            replace(TOLD, window_tokens=16_384),
            ("False", "WindowTooSmall"),
            "tokenBudget is 30000, the model server's window 16384",
        ),
        (replace(TOLD, window_tokens=30_000), ("True", "Fits"), ""),
        (replace(TOLD, uncounted=True), ("True", "Estimated"), "go by our estimates"),
        (None, ("True", "Fits"), ""),
    ],
)
def test_what_the_servers_counts_tell_of_it_is_said(
    counts: Counts | None, told_of_it: tuple[str, str], words: str
) -> None:
    conditions = found(health=replace(WELL, counts=counts))

    assert told(conditions["ContextFits"]) == told_of_it
    assert words in conditions["ContextFits"].message
    assert conditions["Ready"].status == told_of_it[0]


def test_a_lower_budget_mends_a_small_window_before_the_next_run() -> None:
    small = replace(WELL, counts=replace(TOLD, window_tokens=16_384))

    assert told(found(health=small, context={"tokenBudget": 16_384})["ContextFits"]) == ("True", "Fits")


def test_alerts_that_go_out_have_their_effect() -> None:
    assert found(alerts={"notifySecretRef": {"name": "pager", "key": "urls"}})["SpecHonoured"].status == "True"


def test_approvals_have_their_effect() -> None:
    assert found(mode="Approve", approvalExpiry="30m")["SpecHonoured"].status == "True"


def test_retention_has_its_effect() -> None:
    assert found(retention={"runs": "30d", "messages": "7d"})["SpecHonoured"].status == "True"


def test_a_default_that_is_spelled_out_is_no_wish() -> None:
    spelled: dict[str, Any] = {"mode": "Act", "fallback": "Hold", "approvalExpiry": "15m"}

    assert found(**spelled)["SpecHonoured"].status == "True"


@pytest.mark.parametrize(
    ("spec", "suspended", "ready"),
    [
        ({"mode": "Suspended"}, ("True", "ModeSuspended"), ("False", "Suspended")),
        ({"pause": {"until": "2026-11-29T12:00:01Z"}}, ("True", "Paused"), ("True", "Running")),
        ({"pause": {"until": "2026-11-29T12:00:00Z"}}, ("False", "Running"), ("True", "Running")),
    ],
    ids=["no runs at all", "runs without launches", "the pause has ended"],
)
def test_who_is_suspended_is_not_ready_and_who_is_paused_is(
    spec: dict[str, Any], suspended: tuple[str, str], ready: tuple[str, str]
) -> None:
    conditions = found(**spec)

    assert (told(conditions["Suspended"]), told(conditions["Ready"])) == (suspended, ready)


def test_an_owners_problem_overrides_what_the_facts_say() -> None:
    problem = Finding("Ready", "False", "InvalidSchedule", "spec.schedule.cron never comes")

    assert found(health=Health(model_asked=True, problems=(problem,)))["Ready"] == problem


def test_last_transition_time_moves_with_the_status_alone() -> None:
    later = NOW + timedelta(hours=1)
    old = (a_condition("Ready", "True"), a_condition("OnTarget", "True"))
    new = (Finding("Ready", "True", "Other", "other words"), Finding("OnTarget", "False", "BelowTarget", "few"))

    ready, on_target = merged(old, new, later, generation=4)

    assert (ready.last_transition_time, ready.reason, ready.observed_generation) == (NOW, "Other", 4)
    assert on_target.last_transition_time == later


def test_demand_that_is_known_and_inactive_is_no_problem() -> None:
    conditions = found(an_observation(demand=Demand(active=False)))

    assert told(conditions["DemandKnown"]) == ("True", "Inactive")
    assert told(conditions["Ready"]) == ("True", "Running")
