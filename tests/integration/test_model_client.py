"""The client against the scripted model server, over real sockets."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from fleetagent.adapters.model.client import model_http_client
from fleetagent.errors import BadPrompt, BadReply, BadResource, FleetAgentError, PromptTooLong, TryLater
from fleetagent.sim.model import ModelConfig, ModelServer, running
from support.chat_bodies import said, system, user
from support.model_client import KEY, NAME, Clock, asking, model


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with running(ModelConfig(api_key=KEY)) as started:
        yield started


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with model_http_client() as client:
        yield client


async def test_a_reply_has_its_calls_and_the_servers_own_count(server: ModelServer, http: httpx2.AsyncClient) -> None:
    reply = await model(server.url, http).reply(asking())

    assert [call.name for call in reply.calls] == ["get_fleet", "get_demand"]
    assert json.loads(reply.calls[0].arguments) == {}
    assert reply.usage.prompt_tokens == server.model.recorder.last_prompt_tokens
    assert not reply.cut_off


async def test_no_tool_is_called_when_none_may_be(server: ModelServer, http: httpx2.AsyncClient) -> None:
    reply = await model(server.url, http).reply(asking(may_call_tools=False))

    assert reply.calls == ()
    assert reply.text


# Row of the catalogue → the error it ends in when it never stops, or None when a reply comes nevertheless.
ENDINGS: dict[str, tuple[type[FleetAgentError], str] | None] = {
    "A1": (PromptTooLong, "maximum context length"),
    "A2": (PromptTooLong, "maximum context length"),
    "A4": (PromptTooLong, "context length is only"),
    "A6": (PromptTooLong, "available context size"),
    "A14": (TryLater, "Rate limit"),
    "A14/no-header": (TryLater, "Rate limit"),
    "A16": (BadResource, "QuotaExceeded"),
    "A16/litellm": (BadResource, "QuotaExceeded"),
    "A18": (TryLater, "Loading model"),
    "A19": (TryLater, "Temporarily Unavailable"),
    "A19/502": (TryLater, "Bad Gateway"),
    "A19/504": (TryLater, "Gateway Time-out"),
    "A19b": (BadResource, "KeyRefused"),
    "A19b/vllm": (BadResource, "KeyRefused"),
    "A19b/llama.cpp": (BadResource, "KeyRefused"),
    "A19c": (BadResource, "ModelNotFound"),
    "A19c/route": (BadResource, "BadURL"),
    "A20": (BadReply, "no text and no tool call"),
    "A20/vllm": (BadReply, "no text and no tool call"),
    "A20/replayed": (BadReply, "MalformedHistory"),
    "A21": None,
    "A21/length": None,
    "A21/replayed": (BadReply, "MalformedHistory"),
    "A21/replayed-llama.cpp": (BadReply, "MalformedHistory"),
    "A22": None,
    "A22/null": None,
    "A24": None,
    "A25": None,
    "A27": None,
    "A27/qwen": None,
    "A30": (BadReply, "MalformedHistory"),
    "A30/llama.cpp": (BadReply, "MalformedHistory"),
    "A31": (BadReply, "MalformedHistory"),
    "A31/llama.cpp": (BadReply, "MalformedHistory"),
    "A36": (BadReply, "no text and no tool call"),
    "A36/stop": None,
    "A36/length": None,
    "A38": (BadReply, "no choices"),
    "A38/empty": (BadReply, "no choices"),
    "A38/error": (TryLater, "Provider returned error"),
    "A39": None,
    "A39/null": None,
    "A39/zero": None,
    "A42/gateway": (TryLater, "Gateway Time-out"),
}
HELPLESS = (PromptTooLong, BadResource)


@pytest.mark.parametrize("name", ENDINGS)
async def test_a_fault_that_never_stops_ends_in_the_error_that_helps(
    name: str, server: ModelServer, http: httpx2.AsyncClient
) -> None:
    server.model.script.arm({"name": name, "times": None})
    client, ending = model(server.url, http, timing=Clock().timing), ENDINGS[name]

    if ending is None:
        assert await client.reply(asking())
        return
    kind, words = ending
    with pytest.raises(kind) as caught:
        await client.reply(asking())

    assert words in f"{getattr(caught.value, 'reason', '')} {caught.value}"
    assert KEY not in str(caught.value)
    if kind in HELPLESS and name != "A2":
        assert server.model.script.served[name] == 1


@pytest.mark.parametrize(
    "name", [name for name, end in ENDINGS.items() if (end and (end[0] is TryLater or "no " in end[1])) or name == "A2"]
)
async def test_a_fault_that_passes_leaves_no_trace_in_the_reply(
    name: str, server: ModelServer, http: httpx2.AsyncClient
) -> None:
    server.model.script.arm({"name": name})
    clock = Clock()

    reply = await model(server.url, http, timing=clock.timing).reply(asking())

    assert [call.name for call in reply.calls] == ["get_fleet", "get_demand"]
    assert server.model.script.served[name] == 1


async def test_the_names_that_the_server_offers_are_listed_for_a_wrong_one(
    server: ModelServer, http: httpx2.AsyncClient
) -> None:
    with pytest.raises(BadResource, match=f"no model gpt-9; it offers {NAME}"):
        await model(server.url, http, name="gpt-9").reply(asking())


async def test_a_wrong_key_and_a_missing_one_are_told_apart(server: ModelServer, http: httpx2.AsyncClient) -> None:
    with pytest.raises(BadResource, match="put a valid one into the Secret"):
        await model(server.url, http, api_key="sk-wrong-key-12345").reply(asking())
    with pytest.raises(BadResource, match="name a Secret in spec"):
        await model(server.url, http, api_key=None).reply(asking())


@pytest.mark.parametrize("base", ["/v2", "", "/v1/v1"])
async def test_a_wrong_path_is_said_to_be_one(base: str, server: ModelServer, http: httpx2.AsyncClient) -> None:
    with pytest.raises(BadResource, match=r"correct spec\.model\.baseURL") as caught:
        await model(server.control_url + base, http).reply(asking())

    assert caught.value.reason == "BadURL"


@pytest.mark.parametrize("url", ["", "ftp://host/v1", "host:8000/v1", "http://", "http://h:port/v1"])
async def test_an_address_that_is_none_is_refused_when_the_client_is_made(url: str, http: httpx2.AsyncClient) -> None:
    with pytest.raises(BadResource, match=r"spec\.model\.baseURL"):
        model(url, http)


@pytest.mark.parametrize("key", ["two words", "käse-schlüssel", "a\nb", "a\x00b"])
async def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(key: str, http: httpx2.AsyncClient) -> None:
    with pytest.raises(BadResource) as caught:
        model("http://127.0.0.1:9/v1", http, api_key=key)

    assert key not in str(caught.value)


async def test_the_line_break_at_the_end_of_a_secret_does_no_harm(
    server: ModelServer, http: httpx2.AsyncClient
) -> None:
    assert await model(server.url, http, api_key=f"{KEY}\n").reply(asking())


async def test_a_server_that_hangs_is_left_in_time(server: ModelServer, http: httpx2.AsyncClient) -> None:
    server.model.script.arm({"name": "A42", "times": None})
    started = time.monotonic()

    with pytest.raises(TryLater, match="no whole answer within"):
        await model(server.url, http).reply(asking(timeout=timedelta(seconds=0.5)))

    assert time.monotonic() - started < 10


async def test_prompts_beyond_the_window_tell_the_window(server: ModelServer, http: httpx2.AsyncClient) -> None:
    with pytest.raises(PromptTooLong) as caught:
        await model(server.url, http).reply(asking(messages=(system(), user("word " * 40_000))))

    assert caught.value.limit_tokens == 32768


async def test_an_answer_is_shortened_when_only_the_answer_does_not_fit(
    server: ModelServer, http: httpx2.AsyncClient
) -> None:
    reply = await model(server.url, http).reply(asking(max_output_tokens=32_700))

    assert reply.calls
    assert server.model.recorder.overflows == 1


async def test_a_request_that_the_server_holds_malformed_is_a_bad_reply(
    server: ModelServer, http: httpx2.AsyncClient
) -> None:
    with pytest.raises(BadReply):
        await model(server.url, http).reply(asking(messages=(said(), system())))


@pytest.mark.parametrize(
    "fields", [{"messages": (system(), user("a\ud800b"))}, {"parameters": {"top_p": float("nan")}}]
)
async def test_what_json_cannot_hold_is_refused_before_it_is_sent(
    fields: dict[str, Any], server: ModelServer, http: httpx2.AsyncClient
) -> None:
    with pytest.raises(BadPrompt, match="can't be written as JSON"):
        await model(server.url, http).reply(asking(**fields))

    assert server.model.recorder.requests == 0


async def test_cancelling_a_run_ends_its_call_at_once(server: ModelServer, http: httpx2.AsyncClient) -> None:
    server.model.hold()
    call = asyncio.create_task(model(server.url, http).reply(asking(timeout=timedelta(seconds=60))))
    deadline = time.monotonic() + 10
    while not server.model.waiting:
        assert not call.done()
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)

    call.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert time.monotonic() - started < 10
    server.model.release()


async def test_many_agents_share_one_pool(server: ModelServer, http: httpx2.AsyncClient) -> None:
    replies = await asyncio.gather(*(model(server.url, http).reply(asking()) for _ in range(40)))

    assert {reply.calls[0].name for reply in replies} == {"get_fleet"}


async def test_nothing_leaks_in_from_the_environment(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "OPENAI_API_KEY": "from-outside",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_ORG_ID": "org-outside",
        "OPENAI_PROJECT_ID": "proj-outside",
        "OPENAI_ADMIN_KEY": "admin-outside",
        "OPENAI_CUSTOM_HEADERS": "x-outside: yes\nAuthorization: Bearer outside",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    seen: list[dict[str, str]] = []
    async with model_http_client() as http:
        http.event_hooks["request"].append(_noting(seen))
        assert await model(server.url, http).reply(asking())

    (headers,) = seen
    assert headers["authorization"] == f"Bearer {KEY}"
    assert not [name for name in headers if "outside" in f"{name} {headers[name]}" or name.startswith("openai-")]
    assert not [name for name in headers if name.startswith(("x-stainless-os", "x-stainless-arch"))]


def _noting(seen: list[dict[str, str]]) -> Callable[[httpx2.Request], Awaitable[None]]:
    async def note(request: httpx2.Request) -> None:
        seen.append(dict(request.headers))

    return note
