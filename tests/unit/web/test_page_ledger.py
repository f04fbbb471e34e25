"""…/actions and …/alerts: all of them, by state and page by page."""

from typing import Any

import pytest

from support.door import BEGAN, VIEWER
from support.made_up_past import MadeUpPast
from support.page import Premises, a_row, an_action, an_alert

HERE = "/agents/ours/porep"
ACTIONS = [
    an_action(44, args={"reason": "dearest per proof", "instance_id": "9001"}, kind="stop"),
    an_action(43, state="refused", refusal_code="OverHourlyBudget", refusal="4.58 would pass 4.00 USD/h"),
    an_action(42, state="failed", error="the market said no", what=None, provider_ref=None, usd_per_hour=None, args={}),
    an_action(41, run_id=0, by="lifecycle", args={}),
]
ALERTS = [
    an_alert(19),
    an_alert(18, state="acknowledged", comment="known outage", acknowledged_at=BEGAN),
    an_alert(17, state="resolved", resolved_at=BEGAN, run_id=0),
]


def premises(**past: Any) -> Premises:
    return Premises(past=MadeUpPast(known=[a_row()], **{"its_actions": ACTIONS, "its_alerts": ALERTS, **past}))


async def shown(path: str, token: str | None = None, **past: Any) -> str:
    async with premises(**past).client(*([token] if token else [])) as client:
        return (await client.get(f"{HERE}{path}")).raise_for_status().text


async def test_the_ledger_says_of_each_action_why_or_why_not() -> None:
    page = await shown("/actions")

    for said in (
        "dearest per proof",
        "OverHourlyBudget",
        "4.58 would pass 4.00 USD/h",
        "the market said no",
        "lifecycle",
    ):
        assert said in page
    assert 'href="/agents/ours/porep/runs/412"' in page
    assert "runs/0" not in page


@pytest.mark.parametrize(
    ("query", "there", "missing"),
    [
        ("state=refused", "action-43", "action-44"),
        ("run=0", "action-41", "action-44"),
        ("run=412", "action-44", "action-41"),
    ],
)
async def test_the_ledger_shows_one_state_or_one_run(query: str, there: str, missing: str) -> None:
    page = await shown(f"/actions?{query}")

    assert there in page
    assert missing not in page


async def test_a_long_ledger_goes_on_where_its_filter_was() -> None:
    page = await shown("/actions?state=done", its_actions=[an_action(number) for number in range(100, 0, -1)])
    next_page = await shown(
        "/actions?state=done&after=50", its_actions=[an_action(number) for number in range(100, 0, -1)]
    )

    assert 'href="?state=done&amp;run=&amp;after=50"' in page
    assert "action-51<" in page
    assert "action-50<" not in page
    assert "action-50<" in next_page
    assert "after=" not in next_page.partition("<main")[2]


@pytest.mark.parametrize("path", ["/actions?state=all", "/actions?run=twelve", "/actions?run=-1", "/alerts?state=new"])
async def test_a_filter_that_is_none_is_refused_in_words(path: str) -> None:
    async with premises().client() as client:
        answer = await client.get(f"{HERE}{path}")

    assert answer.status_code == 400
    assert "must be" in answer.text


async def test_only_an_open_alert_can_be_acknowledged_and_only_by_who_may_steer() -> None:
    admin, viewer = await shown("/alerts"), await shown("/alerts", VIEWER)

    assert 'id="acknowledge-19"' in admin
    assert 'id="acknowledge-18"' not in admin
    assert 'id="acknowledge-17"' not in admin
    assert "/do/" not in viewer
    assert "You can look and not steer" in viewer
    for page in (admin, viewer):
        assert "known outage" in page
        assert "raised by code" in page


async def test_alerts_are_shown_by_state() -> None:
    page = await shown("/alerts?state=resolved")

    assert "alert-17" in page
    assert "alert-19" not in page


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/actions", "No action yet"),
        ("/actions?state=done", "No such action"),
        ("/alerts", "No alert was ever raised"),
        ("/alerts?state=open", "No alert in this state"),
    ],
)
async def test_where_nothing_is_the_page_says_what_that_means(path: str, said: str) -> None:
    assert said in await shown(path, its_actions=[], its_alerts=[])
