"""Counts of real servers over real sockets: exact counters, windows, counts that are missing or of a clipped prompt."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from fleetagent.adapters.model.client import model_http_client
from fleetagent.adapters.model.sizes import Sizes
from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import PromptTooLong
from fleetagent.sim.model import ModelConfig, running
from fleetagent.sim.model.config import Counter
from support.chat_bodies import called, result, system, user
from support.model_client import KEY, asking, model
from support.on_postgres import OnPostgres, on_postgres
from support.rehearsal import a_tool
from support.servers import a_model
from support.stores import Process

TALK = (system(), user(), called(("c1", "get_fleet", {})), result("c1", {"instances": [{"id": 33_014_980}] * 9}))
COUNTERS: list[tuple[Counter, str]] = [("vllm", "/tokenize"), ("llama.cpp", "/v1/chat/completions/input_tokens")]
LOOK = a_tool("get_fleet", {"facts": "instance 33014980 proves at 42.5 proofs/h; " * 200})


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with model_http_client() as client:
        yield client


@pytest.mark.parametrize(("kind", "path"), COUNTERS)
async def test_an_exact_counter_says_what_the_reply_will_say(
    kind: Counter, path: str, http: httpx2.AsyncClient
) -> None:
    async with running(ModelConfig(api_key=KEY, counter=kind, counts_more=1.37)) as server:
        client, request = model(server.url, http), asking(messages=TALK)

        counted = await client.count_tokens(request)

        assert counted == (await client.reply(request)).usage.prompt_tokens
        assert await client.count_tokens(request) == counted
        assert server.model.recorder.counter_calls == {path: 2}


@pytest.mark.parametrize(
    "config", [{"names_window": True}, {"names_window": False, "counter": "llama.cpp"}], ids=["/v1/models", "/props"]
)
async def test_the_window_is_what_the_server_names(config: dict[str, Any], http: httpx2.AsyncClient) -> None:
    async with running(ModelConfig(api_key=KEY, context_window=12_288, **config)) as server:
        assert await model(server.url, http).context_window() == 12_288


async def test_a_window_that_only_a_refusal_names_is_known_to_whoever_asks_the_same_server(
    http: httpx2.AsyncClient,
) -> None:
    sizes, long = Sizes(), user("one " * 9_000)
    async with running(ModelConfig(api_key=KEY, context_window=8_192, names_window=False)) as server:
        assert await model(server.url, http, sizes=sizes).context_window() is None

        with pytest.raises(PromptTooLong) as refused:
            await model(server.url, http, sizes=sizes).reply(asking(messages=(system(), long)))

        assert refused.value.limit_tokens == 8_192
        assert await model(server.url, http, sizes=sizes).context_window() == 8_192


async def test_a_server_that_accepts_and_never_answers_costs_seconds_once(http: httpx2.AsyncClient) -> None:
    held: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    client = model(f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1", http)
    began = time.monotonic()

    for _ in range(3):
        assert (await client.context_window(), await client.count_tokens(asking())) == (None, None)

    assert len(held) == 1
    assert time.monotonic() - began < 15
    for writer in held:
        writer.close()
        await writer.wait_closed()
    silent.close()
    await silent.wait_closed()


async def test_nothing_is_asked_of_a_server_that_is_away(http: httpx2.AsyncClient) -> None:
    client = model("http://127.0.0.1:1/v1", http)

    assert (await client.count_tokens(asking()), await client.context_window()) == (None, None)


def counts(on: OnPostgres, record: Any) -> Counts:
    """What the row of the session says of counts."""
    found = record.session.counts
    assert isinstance(found, Counts)
    assert found.endpoint == f"{on.agent.spec.model.base_url} {on.agent.spec.model.name}"
    return found


@pytest.mark.parametrize(("kind", "path"), COUNTERS)
async def test_where_a_guess_will_not_do_a_counter_is_asked_at_the_start_and_not_again(
    kind: Counter, path: str, one: Process
) -> None:
    with a_model(counter=kind) as server:
        tight, short = {"context": {"tokenBudget": 3_000}}, a_tool("get_fleet", {"facts": "idle"})
        async with on_postgres(one, server, tools=(short,), spec=tight) as on:
            for _ in range(4):
                assert (await on.run(Trigger.REQUEST)).outcome is Outcome.HELD

        assert server.get("state")["counter_calls"][path] == 1


async def test_the_next_process_projects_from_what_the_last_one_was_told(one: Process) -> None:
    with a_model(counts_more=1.5) as server:
        async with on_postgres(one, server, tools=(LOOK,)) as on:
            await on.run(Trigger.REQUEST)
            told = (await on.record()).session.next_prompt_tokens or 0
            before = len(server.requests())
            await on.run(Trigger.REQUEST)

        reported = server.requests()[before]["prompt_tokens"]
        assert abs(told - reported) <= 0.02 * reported


async def test_runs_keep_within_a_window_below_the_budget_that_the_server_names(one: Process) -> None:
    with a_model(context_window=8_192) as server:
        async with on_postgres(one, server, tools=(LOOK,)) as on:
            outcomes = set()
            for _ in range(12):
                await on.say("[sim] wake in 5")
                outcomes.add((await on.run(Trigger.REQUEST)).outcome)
            record = await on.record()
            assert counts(on, record).window_tokens == 8_192

        assert outcomes == {Outcome.HELD}
        assert server.get("state")["violations"] == 0
        assert {r["status"] for r in server.requests()} == {200}, "none was refused for its length"


async def test_a_server_that_clips_is_told_and_the_runs_own_outcome_stays(one: Process) -> None:
    with a_model(clips_at=2_048) as server:
        async with on_postgres(one, server, tools=(LOOK,)) as on:
            ended = [await on.run(Trigger.REQUEST) for _ in range(3)]
            told = counts(on, await on.record())
            assert {e.outcome for e in ended} == {Outcome.HELD}
            assert told.anchors == ()
            assert told.clip is not None
            assert told.clip.reported == 2_048
            server.put("config", {"clips_at": None})

            await on.run(Trigger.REQUEST)

            assert counts(on, await on.record()).clip is None


async def test_a_server_that_counts_nothing_is_worked_with_and_its_runs_are_marked(one: Process) -> None:
    with a_model() as server:
        async with on_postgres(one, server) as on:
            await on.run(Trigger.REQUEST)
            known = (await on.record()).session.context_tokens
            assert known is not None
            assert not (await on.last())["tokens_estimated"]
            server.put("faults", {"name": "A39", "times": None})

            ended = await on.run(Trigger.REQUEST)

            record, row = await on.record(), await on.last()
            assert ended.outcome is Outcome.HELD
            assert record.session.context_tokens == known
            assert counts(on, record).uncounted
            assert row["tokens_estimated"]
            assert row["tokens_in"] > 1_000
