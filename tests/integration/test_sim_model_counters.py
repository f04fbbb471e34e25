"""The exact token counters of real servers, each on its own path, and servers that count or clip in their own way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from fleetagent.sim.model import ModelConfig, running
from fleetagent.sim.model.personality import PERSONALITIES
from support.chat_bodies import Json, all_tools, body, called, result, said, system, user

MESSAGES = [system(), user(), called(("c", "get_fleet", {})), result("c", {"instances": []})]
ASKED = {"messages": MESSAGES, "tools": all_tools()}


@asynccontextmanager
async def a_server(**config: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        running(ModelConfig(**config)) as server,
        httpx.AsyncClient(base_url=server.control_url, timeout=10) as http,
    ):
        yield http


async def told(http: httpx.AsyncClient, **more: Any) -> int:
    """What the usage of an answer says."""
    answer = await http.post("/v1/chat/completions", json=body(*MESSAGES, **more))
    return int(answer.json()["usage"]["prompt_tokens"])


async def state(http: httpx.AsyncClient) -> Json:
    return dict((await http.get("/_sim/state")).json())


async def test_vllms_counter_says_what_the_usage_will_say() -> None:
    async with a_server(counter="vllm", context_window=4_096) as http:
        counted = await http.post("/tokenize", json={"model": "qwen3.5-122b", **ASKED, "add_generation_prompt": True})

        assert counted.status_code == 200
        assert counted.json()["count"] == await told(http) == len(counted.json()["tokens"])
        assert counted.json()["max_model_len"] == 4_096


async def test_vllms_counter_needs_no_key_no_model_and_no_user_at_the_end() -> None:
    async with a_server(counter="vllm", api_key="right") as http:
        messages = [*MESSAGES, said("Hold.")]
        counted = await http.post("/tokenize", json={"messages": messages})
        without = await http.post("/tokenize", json={"messages": messages, "add_generation_prompt": False})
        text = await http.post("/tokenize", json={"prompt": "hello world"})

    assert counted.json()["count"] > without.json()["count"] > 20
    assert text.json()["count"] == 2


async def test_llama_cpps_counter_says_what_the_usage_will_say() -> None:
    async with a_server(counter="llama.cpp", context_window=4_096) as http:
        counted = await http.post("/v1/chat/completions/input_tokens", json=body(*MESSAGES))
        props = await http.get("/props")

        assert counted.json() == {"object": "response.input_tokens", "input_tokens": await told(http)}
        assert props.json()["default_generation_settings"]["n_ctx"] == 4_096
        assert (await state(http))["counter_calls"] == {"/v1/chat/completions/input_tokens": 1, "/props": 1}


async def test_llama_cpps_counter_stands_behind_the_key() -> None:
    async with a_server(counter="llama.cpp", api_key="right") as http:
        url = "/v1/chat/completions/input_tokens"
        refused = await http.post(url, json=body(*MESSAGES))
        passed = await http.post(url, json=body(*MESSAGES), headers={"authorization": "Bearer right"})

    assert (refused.status_code, passed.status_code) == (401, 200)
    assert refused.json()["error"]["type"] == "authentication_error"


@pytest.mark.parametrize(
    ("counter", "missing"),
    [
        ("none", ["/tokenize", "/v1/chat/completions/input_tokens", "/props"]),
        ("vllm", ["/v1/chat/completions/input_tokens", "/props"]),
        ("llama.cpp", ["/tokenize"]),
    ],
)
async def test_a_server_without_a_counter_knows_no_such_path(counter: str, missing: list[str]) -> None:
    async with a_server(counter=counter) as http:
        for path in missing:
            answer = await (http.get(path) if path == "/props" else http.post(path, json=ASKED))
            assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


@pytest.mark.parametrize("request_body", [None, [], {}, {"messages": []}, {"messages": [system()], "tools": 3}])
async def test_what_cannot_be_counted_is_refused(request_body: Any) -> None:
    async with a_server(counter="vllm") as http:
        assert (await http.post("/tokenize", json=request_body)).status_code == 400


async def test_a_counter_holds_to_its_servers_template() -> None:
    async with a_server(counter="llama.cpp", personality=PERSONALITIES["llama.cpp"]) as http:
        answer = await http.post("/v1/chat/completions/input_tokens", json=body(system(), said("Hold.")))

    assert answer.status_code == 500
    assert "No user query found in messages." in answer.text


async def test_a_server_that_counts_more_refuses_at_its_own_count() -> None:
    async with a_server(counter="vllm") as plain, a_server(counter="vllm", counts_more=1.6) as more:
        ours, theirs = await told(plain), await told(more)
        assert theirs == pytest.approx(1.6 * ours, abs=1)
        assert (await more.post("/tokenize", json=ASKED)).json()["count"] == theirs

        await more.put("/_sim/config", json={"context_window": theirs + 512})
        assert await told(more, max_tokens=512) == theirs
        refused = await more.post("/v1/chat/completions", json=body(*MESSAGES, max_tokens=513))

    assert refused.status_code == 400
    assert f"({theirs} in the messages, 513 in the completion)" in refused.text


async def test_a_server_that_clips_refuses_nothing_and_its_count_sticks() -> None:
    async with a_server(clips_at=100, context_window=700) as http:
        counts = [await told(http, max_tokens=500) for _ in range(2)]

        assert counts == [100, 100]
        assert (await state(http))["overflows"] == 0


async def test_a_server_may_keep_its_window_to_itself() -> None:
    async with a_server(names_window=False) as http:
        [model] = (await http.get("/v1/models")).json()["data"]

    assert "max_model_len" not in model


async def test_habits_change_while_it_serves() -> None:
    async with a_server() as http:
        changed = await http.put("/_sim/config", json={"personality": "refuses-null", "counter": "vllm"})
        null = body(system(), user(), called(("c", "get_fleet", {}), content=None), result("c", "{}"))
        refused = await http.post("/v1/chat/completions", json=null)
        await http.put("/_sim/config", json={"personality": "openai"})
        taken = await http.post("/v1/chat/completions", json=null)

    assert (changed.json()["personality"], changed.json()["counter"]) == ("refuses-null", "vllm")
    assert (refused.status_code, taken.status_code) == (400, 200)


@pytest.mark.parametrize(
    "wish",
    [
        [],
        {"host": "0.0.0.0"},  # noqa: S104  # refused, that is the point
        {"personality": "nice"},
        {"counter": "abacus"},
        {"counts_more": 0},
        {"counts_more": "2"},
        {"context_window": 0},
        {"clips_at": True},
        {"names_window": 1},
        {"latency_seconds": -1},
    ],
    ids=repr,
)
async def test_a_habit_that_makes_no_sense_is_refused_and_nothing_changes(wish: Any) -> None:
    async with a_server() as http:
        before = await state(http)
        refused = await http.put("/_sim/config", json=wish)

        assert refused.status_code == 400
        assert refused.json()["detail"]
        assert await state(http) == before
