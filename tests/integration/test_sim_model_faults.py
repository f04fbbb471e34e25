"""The faults of real model servers on demand: each looks as its row of the catalogue says, and then it is over."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from fleetagent.sim.model import ModelConfig, running
from fleetagent.sim.model.faults import CATALOGUE
from support.chat_bodies import body, called, result, system, user

PLAN = {"hold": False, "launch": [{"offer_id": "11"}], "stop": []}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with running(ModelConfig()) as server, httpx.AsyncClient(base_url=server.control_url, timeout=10) as client:
        yield client


async def post(http: httpx.AsyncClient, request: Any) -> httpx.Response:
    return await http.post("/v1/chat/completions", content=json.dumps(request))


async def test_a_fault_is_served_as_often_as_asked_for_and_then_never(http: httpx.AsyncClient) -> None:
    await http.put("/_sim/faults", json={"name": "A14", "times": 2, "retry_after_seconds": 0.25})
    answers = [await post(http, body()) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [429, 429, 200]
    assert answers[0].json()["error"]["code"] == "rate_limit_exceeded"
    assert "Please try again in 0.25s" in answers[0].json()["error"]["message"]
    assert (answers[0].headers["retry-after"], answers[0].headers["retry-after-ms"]) == ("1", "250")
    assert (await http.get("/_sim/state")).json()["faults_served"] == {"A14": 2}


async def test_a_fault_without_end_lasts_until_it_is_taken_away(http: httpx.AsyncClient) -> None:
    await http.put("/_sim/faults", json={"name": "A19", "times": None})
    first, second = await post(http, body()), await post(http, body())
    await http.delete("/_sim/faults")
    third = await post(http, body())

    assert [answer.status_code for answer in (first, second, third)] == [503, 503, 200]
    assert first.headers["content-type"] == "text/html"


@pytest.mark.parametrize(
    "wish", [{"name": "A999"}, {}, {"name": "A1", "times": 0}, {"name": "A1", "color": 1}, []], ids=repr
)
async def test_a_fault_that_is_not_known_is_refused(http: httpx.AsyncClient, wish: Any) -> None:
    assert (await http.put("/_sim/faults", json=wish)).status_code == 400


NEVER_WHOLE = {"A19/eof", "A41", "A42", "B35/silence", "B35/slow", "B15/timeout"}


async def test_every_fault_answers_in_every_phase_of_a_run_and_the_next_request_is_fine(
    http: httpx.AsyncClient,
) -> None:
    phases = [
        body(),
        body(system(), user(), called(("c", "plan_capacity", {})), result("c", PLAN)),
        body(system(), user("Summarise."), tool_choice="none"),
    ]
    for name in [name for name in CATALOGUE if name not in NEVER_WHOLE]:
        for phase in phases:
            await http.put("/_sim/faults", json={"name": name})
            first = await post(http, phase)
            await http.delete("/_sim/faults")
            second = await post(http, phase)

            assert (first.headers["content-type"] != "", second.status_code) == (True, 200), name


async def test_a_fault_that_concerns_no_request_so_far_leaves_the_next_in_line_its_turn(
    http: httpx.AsyncClient,
) -> None:
    await http.put("/_sim/faults", json={"name": "A32", "times": None})
    await http.put("/_sim/faults", json={"name": "A18"})
    statuses = [(await post(http, body())).status_code for _ in range(2)]

    assert statuses == [503, 200]
    assert (await http.get("/_sim/state")).json()["faults"] == [{"name": "A32", "times": None}]


@pytest.mark.parametrize("after", [-1, "1", True])
async def test_a_beginning_that_makes_no_sense_is_refused(http: httpx.AsyncClient, after: Any) -> None:
    assert (await http.put("/_sim/faults", json={"name": "A1", "after": after})).status_code == 400
