"""The faults of real model servers on demand: each looks as its row of the catalogue says, and then it is over."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from fleetagent.sim.model import ModelConfig, running
from fleetagent.sim.model.faults import CATALOGUE
from support.chat_bodies import Json, body, called, result, system, user

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


def message_of(answer: httpx.Response) -> Json:
    return dict(answer.json()["choices"][0]["message"])


def arguments_of(answer: httpx.Response) -> Any:
    return message_of(answer)["tool_calls"][0]["function"]["arguments"]


SIGNS: dict[str, Callable[[httpx.Response], bool]] = {
    "A1": lambda a: a.json()["error"]["code"] == "context_length_exceeded" and "resulted in" in a.text,
    "A2": lambda a: "you requested" in a.text and "in the completion" in a.text,
    "A4": lambda a: "context length is only" in a.text and a.json()["error"]["param"] == "input_tokens",
    "A6": lambda a: a.json()["error"]["type"] == "exceed_context_size_error" and a.json()["error"]["n_ctx"] == 32768,
    "A14/no-header": lambda a: a.status_code == 429 and "retry-after" not in a.headers,
    "A16": lambda a: a.json()["error"]["code"] == "insufficient_quota",
    "A16/litellm": lambda a: a.json()["error"]["type"] == "budget_exceeded",
    "A18": lambda a: a.status_code == 503 and a.json()["error"]["message"] == "Loading model",
    "A19b": lambda a: a.status_code == 401 and a.json()["error"]["code"] == "invalid_api_key",
    "A19b/vllm": lambda a: a.status_code == 401 and a.json() == {"error": "Unauthorized"},
    "A19c": lambda a: a.status_code == 404 and "does not exist" in a.text,
    "A19c/route": lambda a: a.json() == {"detail": "Not Found"},
    "A20": lambda a: message_of(a)["content"] is None and message_of(a)["reasoning_content"] != "",
    "A21": lambda a: arguments_of(a) == "{",
    "A22": lambda a: arguments_of(a) == "",
    "A22/null": lambda a: arguments_of(a) is None,
    "A24": lambda a: [call["id"] for call in message_of(a)["tool_calls"]] == ["", ""],
    "A25": lambda a: [call["id"] for call in message_of(a)["tool_calls"]] == ["call_0", "call_0"],
    "A27": lambda a: message_of(a)["content"].startswith('<tool_call>\n{"name": "get_fleet"'),
    "A27/qwen": lambda a: message_of(a)["content"].startswith("<function=get_fleet>"),
    "A30": lambda a: a.status_code == 400 and "No user query" in a.text,
    "A31/llama.cpp": lambda a: a.status_code == 500 and "must be at the beginning" in a.text,
    "A36": lambda a: message_of(a)["tool_calls"] == [] and a.json()["choices"][0]["finish_reason"] == "tool_calls",
    "A36/length": lambda a: arguments_of(a) == "{}" and a.json()["choices"][0]["finish_reason"] == "length",
    "A38": lambda a: a.status_code == 200 and a.json()["choices"] is None,
    "A38/error": lambda a: a.status_code == 200 and a.json().keys() == {"error"},
    "A39": lambda a: "usage" not in a.json(),
    "A39/zero": lambda a: a.json()["usage"]["prompt_tokens"] == 0,
    "A42/gateway": lambda a: a.status_code == 504 and "<html>" in a.text,
}


@pytest.mark.parametrize("name", SIGNS)
async def test_a_fault_looks_as_the_catalogue_describes_it(http: httpx.AsyncClient, name: str) -> None:
    await http.put("/_sim/faults", json={"name": name})

    assert SIGNS[name](await post(http, body()))


async def test_every_fault_answers_in_every_phase_of_a_run_and_the_next_request_is_fine(
    http: httpx.AsyncClient,
) -> None:
    phases = [
        body(),
        body(system(), user(), called(("c", "plan_capacity", {})), result("c", PLAN)),
        body(system(), user("Summarise."), tool_choice="none"),
    ]
    for name in CATALOGUE.keys() - {"A42"}:
        for phase in phases:
            await http.put("/_sim/faults", json={"name": name})
            first, second = await post(http, phase), await post(http, phase)

            assert (first.headers["content-type"] != "", second.status_code) == (True, 200), name
