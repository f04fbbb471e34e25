"""The buttons: what each writes at the API server, and how it is answered."""

from typing import Any

import pytest

from support.door import BEGAN, VIEWER
from support.page import KEY, Premises

HERE = "/agents/ours/porep"
NOW = f"{BEGAN:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize(
    ("verb", "form", "written"),
    [
        ("request", {}, {"metadata": {"annotations": {"fleetagent.dev/requested-at": NOW}}}),
        ("reset", {}, {"metadata": {"annotations": {"fleetagent.dev/reset-requested-at": NOW}}}),
        (
            "message",
            {"text": "prefer the EU"},
            {"metadata": {"annotations": {"fleetagent.dev/message": "prefer the EU"}}},
        ),
        (
            "acknowledge",
            {"alert": "alert-17", "comment": "known"},
            {"metadata": {"annotations": {"fleetagent.dev/acknowledge": "alert-17: known"}}},
        ),
        (
            "acknowledge",
            {"alert": "alert-17", "comment": ""},
            {"metadata": {"annotations": {"fleetagent.dev/acknowledge": "alert-17"}}},
        ),
        ("approve", {"actions": "action-42"}, {"metadata": {"annotations": {"fleetagent.dev/approve": "action-42"}}}),
        ("reject", {"actions": "action-42"}, {"metadata": {"annotations": {"fleetagent.dev/reject": "action-42"}}}),
        (
            "pause",
            {"for": "2h", "reason": "too dear", "directions": ["Up", "Down"]},
            {"spec": {"pause": {"until": "2026-12-01T10:00:00Z", "reason": "too dear", "directions": ["Up", "Down"]}}},
        ),
        ("resume", {}, {"spec": {"pause": None}}),
    ],
)
async def test_each_button_writes_what_kubectl_would(verb: str, form: dict[str, Any], written: dict[str, Any]) -> None:
    premises = Premises()
    async with premises.client() as client:
        answer = await client.post(f"{HERE}/do/{verb}", data={**form, "csrf": "of a session"})

    assert answer.status_code == 303
    assert answer.headers["location"] == f"{HERE}?done={verb}"
    (patch,) = premises.callers.patches
    for part, said in written.items():
        for name, value in said.items():
            assert patch[part][name] == value


async def test_htmx_is_answered_by_a_line_and_not_by_a_redirect() -> None:
    async with Premises().client(**{"hx-request": "true"}) as client:
        answer = await client.post(f"{HERE}/do/request")

    assert answer.status_code == 200
    assert answer.text.startswith('<p class="note good">')


async def test_after_the_redirect_the_page_says_what_was_done() -> None:
    async with Premises().client() as client:
        page = (await client.get(f"{HERE}?done=request")).text
        nonsense = (await client.get(f"{HERE}?done=<b>x</b>")).text

    assert "A run is asked for" in page
    assert "<b>x</b>" not in nonsense


async def test_who_may_not_steer_is_refused_by_the_api_server() -> None:
    premises = Premises()
    async with premises.client(VIEWER, **{"hx-request": "true"}) as client:
        answer = await client.post(f"{HERE}/do/request")

    assert answer.status_code == 403
    assert premises.callers.patches == []


@pytest.mark.parametrize(
    ("verb", "form", "sentence"),
    [
        ("message", {"text": ""}, "text"),
        ("message", {"text": "x" * 2001}, "2001 characters"),
        ("pause", {"for": "soon", "directions": "Up"}, "no duration"),
        ("approve", {}, "actions"),
        ("acknowledge", {"alert": "all"}, "alert-17"),
        ("destroy", {}, "there is no verb"),
    ],
)
async def test_what_cannot_be_said_is_answered_with_the_remedy(verb: str, form: dict[str, str], sentence: str) -> None:
    premises = Premises()
    async with premises.client(**{"hx-request": "true"}) as client:
        answer = await client.post(f"{HERE}/do/{verb}", data=form)

    assert answer.status_code == 400
    assert sentence in answer.text
    assert answer.text.startswith('<p class="note bad">')
    assert premises.callers.patches == []


async def test_a_button_of_an_agent_that_is_gone_says_so() -> None:
    premises = Premises()
    premises.callers.agents.pop(KEY)
    async with premises.client() as client:
        answer = await client.post(f"{HERE}/do/request")

    assert answer.status_code == 404
