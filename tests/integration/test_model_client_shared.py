"""What agents of one endpoint share, over real sockets: what it refuses, when it may be asked, and no secret."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import quote

import httpx2
import pytest

from fleetagent.adapters.model.client import model_http_client
from fleetagent.adapters.model.endpoints import Endpoints
from fleetagent.adapters.model.gate import Gate
from fleetagent.adapters.model.payload import Habits
from fleetagent.domain.model import JsonObject
from fleetagent.errors import BadResource, FleetAgentError, ModelLoading, TryLater
from fleetagent.sim.model import ModelConfig, ModelServer, running
from fleetagent.sim.model.personality import PERSONALITIES
from support.chat_bodies import called, result, said, system, user
from support.model_client import KEY, Clock, asking, model

AGENTS = 10
HISTORY: tuple[JsonObject, ...] = (
    system(),
    user("summary"),
    user("facts"),
    called(("r1_1_0", "get_fleet", {})),
    result("r1_1_0", {"instances": []}),
    said(),
    user("facts again"),
    called(("r2_1_0", "get_fleet", {})),
    result("r2_1_0", {"instances": []}),
    user("facts once more"),
    user("a wish"),
)
TEXTS = [str(message["content"]) for message in HISTORY]


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with model_http_client() as client:
        yield client


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with running(ModelConfig(api_key=KEY)) as started:
        yield started


@pytest.mark.parametrize(
    ("name", "habits", "refusals"),
    [
        ("strict", Habits(), 0),
        ("alternating", Habits(wants_turns=True), 1),
        ("no-system", Habits(takes_system=False), 1),
        ("gemma", Habits(wants_turns=True, takes_system=False), 2),
    ],
)
async def test_a_template_with_wishes_of_its_own_refuses_once_and_never_again(
    name: str, habits: Habits, refusals: int, http: httpx2.AsyncClient
) -> None:
    known = Endpoints()
    async with running(ModelConfig(personality=PERSONALITIES[name])) as server:
        for _ in range(3):  # three runs, each with a client of its own
            learnt = known.habits(server.url, KEY, "qwen")
            assert await model(server.url, http, habits=learnt).reply(asking(messages=HISTORY))

        recorder = server.model.recorder

    assert known.habits(server.url, KEY, "qwen") == habits
    assert recorder.requests == 3 + refusals
    sent = json.dumps(json.loads(recorder.since(0)[-1].raw)["messages"], ensure_ascii=False)
    assert [text for text in TEXTS if json.dumps(text)[1:-1] not in sent] == []


async def test_ten_agents_at_a_busy_server_ask_it_once_before_its_time_is_over(
    server: ModelServer, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetagent.adapters.model.gate.SPACING_SECONDS", 5.0)  # until the first answer, if it is slow
    server.model.script.arm({"name": "A14", "retry_after_seconds": 3})
    gate = Gate()

    replies = await asyncio.gather(*(model(server.url, http, gate=gate).reply(asking()) for _ in range(AGENTS)))

    asked_at = [exchange.received_at for exchange in server.model.recorder.since(0)]
    assert len(replies) == AGENTS
    assert [at - asked_at[0] > 2.9 for at in asked_at] == [False] + [True] * AGENTS


async def test_a_long_wait_holds_for_the_next_agent_too_and_only_with_that_key(
    server: ModelServer, http: httpx2.AsyncClient
) -> None:
    server.model.script.arm({"name": "A14", "retry_after_seconds": 3000})
    known = Endpoints()

    for _ in range(3):
        with pytest.raises(TryLater, match=r"takes no request before 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"):
            await model(server.url, http, gate=known.gate(server.url, KEY)).reply(asking())

    assert server.model.recorder.requests == 1
    assert await model(server.url, http, gate=known.gate(server.url, "another")).reply(asking())


async def test_a_model_that_loads_is_waited_for_by_all_and_said_to_load(
    server: ModelServer, http: httpx2.AsyncClient
) -> None:
    server.model.script.arm({"name": "A18", "times": None})
    gate, request = Gate(), asking(timeout=timedelta(seconds=5))

    outcomes = await asyncio.gather(
        *(model(server.url, http, gate=gate).reply(request) for _ in range(AGENTS)), return_exceptions=True
    )

    assert {type(outcome) for outcome in outcomes} == {ModelLoading}
    assert server.model.recorder.requests < AGENTS


SPELLINGS = {
    "as it is": KEY,
    "in a header": f"Authorization: Bearer {KEY}",
    "in a URL": quote(KEY, safe=""),
    "every character in a URL": "".join(f"%{ord(character):02X}" for character in KEY),
    "in JSON in JSON": json.dumps({"headers": json.dumps({"authorization": f"Bearer {KEY}"})}),
    "in base64": base64.b64encode(KEY.encode()).decode(),
    "as a password": "Basic " + base64.b64encode(f":{KEY}".encode()).decode(),
    "as a password, bare": base64.b64encode(f":{KEY}".encode()).decode(),
    "as somebody's password": base64.b64encode(f"operator:{KEY}".encode()).decode(),
}


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500, 503])
@pytest.mark.parametrize("name", SPELLINGS)
async def test_a_server_that_echoes_our_key_does_not_get_it_into_words(
    name: str, status: int, server: ModelServer, http: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    echo = SPELLINGS[name]
    entry = {
        "status": status,
        "body": {"error": {"message": f"upstream refused {echo}", "code": None, "headers": echo}},
        "headers": {"x-request-id": echo},
    }
    server.model.script.replace([entry] * 30)

    with caplog.at_level(logging.DEBUG, logger="fleetagent"), pytest.raises(FleetAgentError) as caught:
        await model(server.url, http, timing=Clock().timing).reply(asking())

    leaked = [secret for secret in (KEY, echo, json.dumps(echo)[1:-1]) if secret in f"{caught.value} {caplog.text}"]
    assert "upstream refused" in caplog.text
    assert leaked == []


async def test_the_names_that_a_server_offers_carry_no_key(http: httpx2.AsyncClient) -> None:
    async with running(ModelConfig(model=f"model-of-{KEY}")) as server:
        with pytest.raises(BadResource, match=r"it offers model-of-\[hidden\]") as caught:
            await model(server.url, http, name="other").reply(asking())

    assert KEY not in str(caught.value)
