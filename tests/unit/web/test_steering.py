"""Verbs of page and API: nobody's decision or word gets lost by another's."""

from typing import Any

import pytest

from fleetagent.domain.records import AgentKey
from fleetagent.domain.said import value_of
from support.door import ADMIN, Door, MadeUpCallers

KEY = AgentKey("ours", "porep")
PATH = "/api/v1/namespaces/ours/agents/porep"


@pytest.fixture
def door() -> Door:
    door = Door(MadeUpCallers())
    door.callers.store(KEY, {})
    return door


def said(door: Door, name: str) -> Any:
    return door.callers.agents[KEY]["metadata"]["annotations"].get(f"fleetagent.dev/{name}")


def annotated(name: str, value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {f"fleetagent.dev/{name}": value}}}


async def test_two_people_who_approve_within_a_second_are_both_heard(door: Door) -> None:
    door.callers.in_between = [annotated("approve", "action-41"), annotated("approve", "action-41,action-42")]
    async with door.program(ADMIN) as admin:
        answer = await admin.post(f"{PATH}/approve", json={"actions": ["action-43"]})

    assert answer.status_code == 202
    assert said(door, "approve") == "action-41,action-42,action-43"


async def test_who_is_overtaken_each_time_is_told_so(door: Door) -> None:
    door.callers.in_between = [annotated("note", str(n)) for n in range(100)]
    async with door.program(ADMIN) as admin:
        answer = await admin.post(f"{PATH}/approve", json={"actions": ["action-43"]})

    assert (answer.status_code, answer.json()["error"]) == (409, "Conflict")
    assert said(door, "approve") is None


@pytest.mark.parametrize(("verb", "body"), [("message", {"text": "mine"}), ("acknowledge", {"alert": "alert-2"})])
async def test_a_word_that_the_operator_has_not_heard_is_not_overwritten(
    door: Door, verb: str, body: dict[str, str]
) -> None:
    door.callers.store(KEY, annotated(verb, "alert-1"))
    async with door.program(ADMIN) as admin:
        answer = await admin.post(f"{PATH}/{verb}", json=body)

    assert (answer.status_code, answer.json()["error"]) == (409, "Conflict")
    assert said(door, verb) == "alert-1"


@pytest.mark.parametrize(("verb", "body"), [("message", {"text": "mine"}), ("acknowledge", {"alert": "alert-2"})])
async def test_a_word_waits_until_the_one_before_it_is_heard(door: Door, verb: str, body: dict[str, str]) -> None:
    door.callers.store(KEY, annotated(verb, "alert-1"))
    door.hears_next = {value_of(verb, "alert-1")}
    async with door.program(ADMIN) as admin:
        answer = await admin.post(f"{PATH}/{verb}", json=body)

    assert answer.status_code == 202
    assert said(door, verb) in {"mine", "alert-2"}


async def test_a_word_that_was_served_gives_way_at_once(door: Door) -> None:
    door.callers.store(
        KEY, {**annotated("message", "old"), "status": {"lastHandledMessage": value_of("message", "old")}}
    )
    async with door.program(ADMIN) as admin:
        await admin.post(f"{PATH}/message", json={"text": "new"})

    assert said(door, "message") == "new"
    assert door.seconds() == 0


async def test_a_run_is_asked_for_whatever_stands_there(door: Door) -> None:
    door.callers.store(KEY, annotated("requested-at", "1"))
    async with door.program(ADMIN) as admin:
        answer = await admin.post(f"{PATH}/request", json={})

    assert answer.status_code == 202
    assert said(door, "requested-at") == "2026-12-01T08:00:00Z"
