"""The model server over HTTP, as an OpenAI client and as raw requests see it."""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from fleetagent.sim.model import ModelConfig, ModelServer, add_arguments, main, running
from support.chat_bodies import Json, all_tools, body, called, result, said, system, user

PLAN = {
    "target_proofs_per_hour": 500,
    "projected_proofs_per_hour": 432,
    "hold": False,
    "launch": [{"offer_id": "11", "gpu": "RTX 5090", "expected_proofs_per_hour": 68, "usd_per_hour": "0.44"}],
    "stop": [],
}
RESULTS = {"plan_capacity": PLAN, "launch_instance": {"ok": True, "instance_id": "9"}}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with running(ModelConfig()) as started:
        yield started


@pytest.fixture
async def http(server: ModelServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.control_url, timeout=10) as client:
        yield client


async def post(http: httpx.AsyncClient, request: Any) -> httpx.Response:
    """Raw JSON, so that what no client would send can be sent too."""
    return await http.post("/v1/chat/completions", content=json.dumps(request))


async def state(http: httpx.AsyncClient) -> Json:
    return dict((await http.get("/_sim/state")).json())


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + 10
    while not await condition():
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.01)


async def test_a_whole_run_on_the_openai_client_ends_with_a_true_verdict(server: ModelServer) -> None:
    messages: list[Any] = [system(), user()]
    called_in_order: list[str] = []
    async with openai.AsyncOpenAI(base_url=server.url, api_key="any", max_retries=0) as client:
        for _ in range(10):
            tools: Any = all_tools()
            reply = await client.chat.completions.create(
                model="qwen3.5-122b", messages=messages, tools=tools, max_tokens=500
            )
            message = reply.choices[0].message
            calls = [call for call in message.tool_calls or [] if call.type == "function"]
            if not calls:
                break
            asked = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in calls]
            messages.append(called(*asked))
            messages += [result(call.id, RESULTS.get(call.function.name, {"ok": True})) for call in calls]
            called_in_order += [call.function.name for call in calls]

    assert called_in_order == ["get_fleet", "get_demand", "plan_capacity", "launch_instance"]
    assert message.content == 'Launched 1: 11.\n{"action": true, "state_changed": true}'
    assert reply.system_fingerprint == "scripted-policy"
    assert reply.usage is not None
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.usage.prompt_tokens_details is not None
    assert 0 < (reply.usage.prompt_tokens_details.cached_tokens or 0) < reply.usage.prompt_tokens
    assert server.model.recorder.by_rule.total() == 0


async def test_requests_are_recorded_whole_with_the_count_that_the_client_was_told(http: httpx.AsyncClient) -> None:
    told = (await post(http, body())).json()["usage"]["prompt_tokens"]
    await post(http, body(system(), user("Run 8.")))
    newest = (await http.get("/_sim/requests?after=1")).json()
    everything = (await http.get("/_sim/requests")).json()

    assert [entry["seq"] for entry in everything] == [1, 2]
    assert (everything[0]["body"], everything[0]["prompt_tokens"], everything[0]["status"]) == (body(), told, 200)
    assert [entry["body"]["messages"][1]["content"] for entry in newest] == ["Run 8."]
    assert (await state(http))["max_prompt_tokens"] == max(entry["prompt_tokens"] for entry in everything)


async def test_a_violation_is_a_400_that_names_the_rule_and_is_counted(http: httpx.AsyncClient) -> None:
    refused = await post(http, body(system(), user(), said(), system("late"), user()))
    error = refused.json()["error"]

    assert (refused.status_code, error["code"], error["param"]) == (400, "late_system", "messages.[3].role")
    assert error["message"] == "System message must be at the beginning. [rule late_system]"
    assert (await state(http))["violations_by_rule"] == {"late_system": 1}


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'{"temperature": NaN}', b"[" * 100_000])
async def test_what_is_no_json_is_refused(http: httpx.AsyncClient, raw: bytes) -> None:
    refused = await http.post("/v1/chat/completions", content=raw)

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "not_json")


async def test_a_lone_surrogate_is_refused_and_still_shown_in_the_record(http: httpx.AsyncClient) -> None:
    refused = await post(http, body(system(), user("\ud83d")))

    assert refused.json()["error"]["code"] == "lone_surrogate"
    assert (await http.get("/_sim/requests")).json()[0]["violations"][0]["rule"] == "lone_surrogate"


async def test_overflow_is_told_as_openai_tells_it_with_exact_numbers() -> None:
    async with running(ModelConfig(context_window=2000)) as server, httpx.AsyncClient() as client:
        url = f"{server.url}/chat/completions"
        prompt = (await client.post(url, json=body())).json()["usage"]["prompt_tokens"]
        fits = await client.post(url, json=body(max_tokens=2000 - prompt))
        one_more = await client.post(url, json=body(max_tokens=2001 - prompt))
        long = await client.post(url, json=body(system("word " * 2000), user()))

    assert fits.status_code == 200
    assert (one_more.status_code, one_more.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert (
        f"requested 2001 tokens ({prompt} in the messages, {2001 - prompt} in the"
        in one_more.json()["error"]["message"]
    )
    assert (
        "maximum context length is 2000 tokens. However, your messages resulted in" in long.json()["error"]["message"]
    )
    assert server.model.recorder.overflows == 2


async def test_a_wrong_key_model_or_route_is_told_as_real_servers_tell_it() -> None:
    async with running(ModelConfig(api_key="right")) as server:
        wrong = openai.AsyncOpenAI(base_url=server.url, api_key="wrong", max_retries=0)
        right = openai.AsyncOpenAI(base_url=server.url, api_key="right", max_retries=0)
        doubled = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="right", max_retries=0)
        async with wrong, right, doubled:
            with pytest.raises(openai.AuthenticationError, match="Incorrect API key"):
                await wrong.models.list()
            with pytest.raises(openai.NotFoundError, match="The model `gpt-7` does not exist"):
                await right.chat.completions.create(model="gpt-7", messages=[system(), user()])  # type: ignore[list-item]
            with pytest.raises(openai.NotFoundError) as lost:
                await doubled.models.list()
            [model] = (await right.models.list()).data

        assert lost.value.response.json() == {"detail": "Not Found"}
        assert (model.id, model.to_dict()["max_model_len"]) == ("qwen3.5-122b", 32768)
        assert server.model.recorder.requests == 1


async def test_health_and_control_need_no_key() -> None:
    async with running(ModelConfig(api_key="right")) as server, httpx.AsyncClient() as client:
        answers = [await client.get(f"{server.control_url}{path}") for path in ("/health", "/_sim/state")]

    assert [answer.status_code for answer in answers] == [200, 200]


async def test_canned_answers_come_first_and_in_order(http: httpx.AsyncClient) -> None:
    script = [
        {"calls": [{"name": "stop_instance", "arguments": {"instance_id": "x"}}]},
        {"reply": {"content": [{"type": "text", "text": "odd"}]}, "finish_reason": None},
        {"status": 503, "body": {"error": "busy"}, "headers": {"retry-after": 7}},
        {"delay_seconds": 0.05},
    ]
    put = await http.put("/_sim/script", json=script)
    answers = [await post(http, body()) for _ in script]
    choices = [answer.json()["choices"][0] for answer in answers if answer.status_code == 200]

    assert put.json()["script_left"] == 4
    assert choices[0]["message"]["tool_calls"][0]["function"] == {
        "name": "stop_instance",
        "arguments": '{"instance_id": "x"}',
    }
    assert choices[1]["message"]["content"] == [{"type": "text", "text": "odd"}]
    assert choices[1]["finish_reason"] is None
    assert (answers[2].status_code, answers[2].headers["retry-after"]) == (503, "7")
    assert choices[2]["message"]["tool_calls"][0]["function"]["name"] == "get_fleet"
    assert (await state(http))["script_left"] == 0


async def test_a_refused_request_uses_up_no_canned_answer(http: httpx.AsyncClient) -> None:
    await http.put("/_sim/script", json=[{"reply": {"content": "one"}}])
    await http.put("/_sim/faults", json={"name": "A18"})
    await post(http, body(system()))

    assert (await state(http))["script_left"] == 1
    assert (await state(http))["faults"] == [{"name": "A18", "times": 1}]


@pytest.mark.parametrize(
    "entry",
    [
        [],
        {},
        {"replay": {}},
        {"reply": "hi"},
        {"reply": {}, "status": 503},
        {"status": 42},
        {"calls": [{}]},
        {"hang": False},
    ],
    ids=repr,
)
async def test_a_script_that_is_not_understood_is_refused(http: httpx.AsyncClient, entry: Any) -> None:
    refused = await http.put("/_sim/script", json=[entry])

    assert refused.status_code == 400
    assert refused.json()["detail"]


async def test_a_hanging_answer_ends_when_the_client_gives_up(http: httpx.AsyncClient) -> None:
    await http.put("/_sim/script", json=[{"hang": True}])
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/v1/chat/completions", json=body(), timeout=0.2)

    async def abandoned() -> bool:
        return bool((await http.get("/_sim/requests")).json()[0]["abandoned"])

    await until(abandoned, "abandoned")


async def test_held_requests_wait_until_they_are_released(http: httpx.AsyncClient) -> None:
    await http.put("/_sim/hold")
    waiting = [asyncio.create_task(post(http, body())) for _ in range(2)]

    async def both_held() -> bool:
        return bool((await state(http))["held"] == 2)

    await until(both_held, "two requests held")
    assert not any(task.done() for task in waiting)

    await http.delete("/_sim/hold")
    assert [(await task).status_code for task in waiting] == [200, 200]
    assert (await state(http))["held"] == 0


async def test_the_server_ends_at_once_although_requests_are_held() -> None:
    async with httpx.AsyncClient(timeout=10) as client:
        async with running(ModelConfig()) as server:
            server.model.hold()
            task = asyncio.create_task(client.post(f"{server.url}/chat/completions", json=body()))

            async def held() -> bool:
                return server.model.waiting == 1

            await until(held, "held")
            began = time.monotonic()
        assert time.monotonic() - began < 8  # the client would wait for ten
        await asyncio.wait([task])


async def test_an_answer_does_not_wait_for_a_delayed_acknowledgement(http: httpx.AsyncClient) -> None:
    async def seconds() -> float:
        began = time.monotonic()
        await post(http, body())
        return time.monotonic() - began

    # One of the fastest: the machine may be busy, while Nagle's algorithm would cost 40 ms nearly each time.
    assert sorted([await seconds() for _ in range(30)])[4] < 0.03


async def test_latency_is_the_least_that_an_answer_takes() -> None:
    async with running(ModelConfig(latency_seconds=0.2)) as server, httpx.AsyncClient() as client:
        began = time.monotonic()
        await client.post(f"{server.url}/chat/completions", json=body())

        assert time.monotonic() - began >= 0.2


async def test_the_command_says_what_it_is_and_ends_on_sigterm(tmp_path: Path) -> None:
    source = "import argparse, sys; from fleetagent.sim.model import *; p = argparse.ArgumentParser(); "
    source += "add_arguments(p); sys.exit(main(p.parse_args()))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    options = ["--listen", "127.0.0.1:0", "--api-key", "k", "--context-window", "4096"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, *options, stdout=subprocess.PIPE, env=environment, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        url = line.split()[2]
        async with httpx.AsyncClient(headers={"authorization": "Bearer k"}) as client:
            [model] = (await client.get(f"{url}/models")).json()["data"]
    finally:
        process.terminate()
        await process.wait()

    assert line == f"model on {url} (scripted policy, no language model)\n"
    assert model["max_model_len"] == 4096
    assert process.returncode == 0


def test_a_port_that_is_taken_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        code = main(parser.parse_args(["--listen", address]))

    assert code == 1
    assert capsys.readouterr().err == f"the model server can't listen on {address}: Address already in use\n"


@pytest.mark.parametrize(
    "option",
    [
        ["--listen", "8000"],
        ["--listen", "a:b"],
        ["--context-window", "0"],
        ["--personality", "nice"],
        ["--counter", "abacus"],
        ["--counts-more", "0"],
    ],
)
def test_an_option_that_makes_no_sense_is_refused(option: list[str]) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser)

    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(option)
