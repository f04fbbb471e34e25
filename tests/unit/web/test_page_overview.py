"""/agents/{ns}/{name}: the overview."""

from datetime import timedelta
from pathlib import Path

import pytest

from fleetagent.domain.status import Health, findings
from fleetagent.entrypoints.web.page.state import runbook_page
from support.door import ADMIN, BEGAN, OURS_ALONE, VIEWER, MadeUpCallers
from support.made_up_past import MadeUpPast
from support.manifests import a_parsed_spec
from support.page import KEY, Premises, a_row, a_run, a_sample, an_alert, stored

HERE = "/agents/ours/porep"
MINUTES_9 = f"{BEGAN + timedelta(minutes=9):%Y-%m-%dT%H:%M:%SZ}"
WAITING = {
    "id": "action-42",
    "kind": "launch",
    "what": "1x RTX 5090",
    "usdPerHour": "0.4635",
    "reason": "as planned",
    "expiresAt": MINUTES_9,
}


async def shown(premises: Premises, token: str = ADMIN, path: str = HERE) -> str:
    async with premises.client(token) as client:
        return (await client.get(path)).raise_for_status().text


async def test_the_figures_are_those_of_the_status_to_the_last_digit() -> None:
    page = await shown(Premises())

    for name, value in (
        ("proofs-per-hour", "410"),
        ("projected", "485"),
        ("usd-per-hour", "3.4213"),
        ("usd-today", "51.2"),
        ("tokens-today", "120345"),
        ("context-tokens", "8123"),
        ("estimated-tokens", "8150"),
        ("instances", "11"),
    ):
        assert f'id="{name}" value="{value}"' in page


async def test_an_action_that_waits_is_shown_with_price_time_left_and_both_buttons() -> None:
    premises = Premises(MadeUpCallers(agents={KEY: stored(status={"waitingActions": [WAITING]})}))
    page = await shown(premises)

    assert "1x RTX 5090" in page
    assert ">0.4635<" in page
    assert "in 9 min" in page
    assert 'id="approve-action-42"' in page
    assert 'id="reject-action-42"' in page


async def test_an_action_whose_time_is_over_says_so() -> None:
    premises = Premises(MadeUpCallers(agents={KEY: stored(status={"waitingActions": [WAITING]})}))
    premises.now = BEGAN + timedelta(minutes=10)

    assert "its time is over" in await shown(premises)


async def test_figures_of_a_fleet_that_is_not_known_say_how_old_they_are() -> None:
    unknown = {"type": "FleetKnown", "status": "False", "reason": "X", "message": "m", "lastTransitionTime": MINUTES_9}
    premises = Premises(MadeUpCallers(agents={KEY: stored(status={"conditions": [unknown]})}))
    premises.now = BEGAN + timedelta(hours=3)

    assert "not known just now" in await shown(premises)
    assert "not known just now" not in await shown(Premises())


async def test_a_target_that_does_not_hold_for_want_of_demand_is_told_apart() -> None:
    idle = a_row(sample=a_sample(BEGAN, target_proofs_per_hour=0))
    busy = a_row(sample=a_sample(BEGAN))

    assert 'id="target-now" value="0"' in await shown(Premises(past=MadeUpPast(known=[idle])))
    assert "target-now" not in await shown(Premises(past=MadeUpPast(known=[busy])))


async def test_who_may_not_steer_sees_all_of_it_without_a_button_and_is_told_why() -> None:
    premises = Premises(
        MadeUpCallers(agents={KEY: stored(status={"waitingActions": [WAITING]})}),
        MadeUpPast(known=[a_row()], its_alerts=[an_alert()]),
    )
    seen = await shown(premises, VIEWER)

    assert "alert-17" in seen
    assert "1x RTX 5090" in seen
    assert "/do/" not in seen
    assert "You can look and not steer" in seen


async def test_a_paused_agent_can_be_resumed_and_one_that_is_not_cannot() -> None:
    pause = {"until": MINUTES_9, "reason": "market too dear", "directions": ["Up"]}
    paused = await shown(Premises(MadeUpCallers(agents={KEY: stored(spec={"pause": pause})})))
    usual = await shown(Premises())

    assert 'id="do-resume"' in paused
    assert "market too dear" in paused
    assert 'id="do-resume"' not in usual


async def test_open_alerts_come_with_the_form_that_acknowledges_them() -> None:
    page = await shown(
        Premises(past=MadeUpPast(known=[a_row()], its_alerts=[an_alert(), an_alert(16, state="resolved")]))
    )

    assert 'id="acknowledge-17"' in page
    assert "alert-16" not in page


async def test_a_condition_that_is_not_as_it_should_be_names_its_runbook_page() -> None:
    conditions = [
        {"type": "OnTarget", "status": "True", "reason": "Reached", "message": "m", "lastTransitionTime": MINUTES_9},
        {"type": "Ready", "status": "True", "reason": "Running", "message": "m", "lastTransitionTime": MINUTES_9},
        {
            "type": "CreditLasts",
            "status": "False",
            "reason": "CreditLow",
            "message": "m",
            "lastTransitionTime": MINUTES_9,
        },
    ]
    page = await shown(Premises(MadeUpCallers(agents={KEY: stored(status={"conditions": conditions})})))

    assert "docs/runbook/credit-lasts.md" in page
    assert "docs/runbook/on-target.md" not in page
    places = [page.index(f'id="condition-{kind}"') for kind in ("Ready", "CreditLasts", "OnTarget")]
    assert places == sorted(places)


async def test_without_the_database_the_status_is_shown_and_it_is_said_what_is_missing() -> None:
    page = await shown(Premises(past=MadeUpPast(known=[a_row()], away=True)))

    assert 'value="3.4213"' in page
    assert "The database cannot be read" in page


async def test_a_deleted_agent_stays_readable() -> None:
    premises = Premises(past=MadeUpPast(known=[a_row(deleted_at=BEGAN)], its_runs=[a_run()]))
    premises.callers.agents.clear()
    page = await shown(premises)

    assert "has been deleted" in page
    assert "/do/" not in page


async def test_an_agent_that_nobody_knows_is_not_found() -> None:
    async with Premises().client() as client:
        answer = await client.get("/agents/ours/none")

    assert answer.status_code == 404
    assert "there is no FleetAgent ours/none" in answer.text


@pytest.mark.parametrize("part", ["", "/now", "/samples.json", "/events", "/alerts", "/actions"])
async def test_nothing_of_an_agent_is_shown_to_who_may_not_read_its_namespace(part: str) -> None:
    key = type(KEY)("theirs", "snap")
    premises = Premises(MadeUpCallers(agents={key: stored(key)}), MadeUpPast(known=[a_row(key)]))
    async with premises.client(OURS_ALONE) as client:
        answer = await client.get(f"/agents/theirs/snap{part}")

    assert answer.status_code == 403
    assert "410" not in answer.text


async def test_samples_are_columns_from_oldest_to_newest() -> None:
    samples = [a_sample(BEGAN - timedelta(minutes=m), 400.0 + m) for m in (30, 20, 10)]
    premises = Premises(past=MadeUpPast(known=[a_row()], its_samples=samples))
    async with premises.client() as client:
        told = (await client.get(f"{HERE}/samples.json?hours=24")).raise_for_status().json()
        newer = (await client.get(f"{HERE}/samples.json?hours=24&since={told['at'][1]}")).raise_for_status().json()

    assert told["measured"] == [430, 420, 410]
    assert told["projected"] == [505, 495, 485]
    assert told["target"] == [500, 500, 500]
    assert told["usdPerHour"] == [3.42, 3.42, 3.42]
    assert newer["measured"] == [410]


@pytest.mark.parametrize("query", ["hours=5", "hours=x", "hours=24&since=yesterday", "hours=24&since=1e99"])
async def test_a_span_that_is_none_is_refused_in_words(query: str) -> None:
    async with Premises().client() as client:
        answer = await client.get(f"{HERE}/samples.json?{query}")

    assert answer.status_code == 400
    assert "must be" in answer.text


async def test_nothing_on_a_page_is_inline_or_from_elsewhere() -> None:
    premises = Premises(past=MadeUpPast(known=[a_row()], its_alerts=[an_alert()], its_runs=[a_run()]))
    async with premises.client() as client:
        pages = [(await client.get(path)).text for path in ("/", HERE, f"{HERE}/alerts", f"{HERE}/actions", "/login")]

    for page in pages:
        assert " style=" not in page
        assert "<style" not in page
        assert "<script>" not in page
        assert "hx-on" not in page
        assert " onclick=" not in page
        assert "http://" not in page
        assert "https://" not in page


def test_every_condition_has_the_runbook_page_that_the_overview_names() -> None:
    pages = Path(__file__).parents[3] / "docs" / "runbook"
    kinds = {found.type for found in findings(a_parsed_spec(), None, Health(), BEGAN)} | {"Stalled"}

    assert {kind for kind in kinds if not (pages / runbook_page(kind)).is_file()} == set()


async def test_the_part_that_is_fetched_anew_brings_the_state_in_the_head_along() -> None:
    whole, part = await shown(Premises()), await shown(Premises(), path=f"{HERE}/now")

    assert whole.count('id="state"') == 1
    assert '<span id="state" hx-swap-oob="true">' in part
