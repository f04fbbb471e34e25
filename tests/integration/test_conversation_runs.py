"""Runs on a real Postgres and a strict model server: the first one, fat ones, and many in a small window."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.tables import messages, sessions
from fleetagent.agent.tools import TOOLS
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.sim.model.personality import PERSONALITIES
from support.on_postgres import OnPostgres, on_postgres
from support.rehearsal import COUNT, a_tool
from support.servers import Model, a_model
from support.stores import Process

TO_LEARN = {"alternation", "system_role"}
"""What a server must refuse once, before it is known."""

FACTS = "instance 33014980 proves at 42.5 proofs/h; " * 640


@pytest.fixture
def server() -> Any:
    with a_model() as running:
        yield running


@pytest.fixture
async def on(one: Process, server: Model) -> AsyncIterator[OnPostgres]:
    async with on_postgres(one, server) as ready:
        yield ready


@pytest.mark.parametrize("personality", [n for n, p in PERSONALITIES.items() if not p.refuses & TO_LEARN])
async def test_first_and_later_runs_succeed_on_every_kind_of_server(one: Process, personality: str) -> None:
    with a_model(personality=PERSONALITIES[personality]) as server:
        async with on_postgres(one, server) as on:
            await on.say("[sim] wake in 5")
            for _ in range(3):
                ended = await on.run(Trigger.REQUEST)
                assert ended.outcome is Outcome.HELD, ended

        assert server.get("state")["violations"] == 0


async def test_what_two_runs_saw_whole_costs_the_next_request_little(on: OnPostgres, server: Model) -> None:
    assert COUNT(FACTS) >= 12_000
    await on.run()
    empty = server.requests()[0]["prompt_tokens"]
    on.tools = (a_tool("get_fleet", {"facts": FACTS}), *[t for t in TOOLS if t.name != "get_fleet"])

    for _ in range(2):
        await on.say("[sim] wake in 5")
        seen = server.get("state")["requests"]
        assert (await on.run()).outcome is Outcome.HELD
        after = server.requests(after=seen)
        assert FACTS in str(after[1]["body"]["messages"])
        assert after[1]["prompt_tokens"] - after[0]["prompt_tokens"] > 12_000
        assert (await on.record()).session.context_tokens == after[-1]["prompt_tokens"]
    seen = server.get("state")["requests"]
    await on.run()

    assert server.requests(after=seen)[0]["prompt_tokens"] - empty <= 600
    assert (await on.process.rows("SELECT count(*) AS n FROM compactions"))[0]["n"] == 0
    kept = await on.process.rows(
        "SELECT history_content FROM messages WHERE content LIKE '%33014980%' AND role = 'tool'"
    )
    assert {r["history_content"] for r in kept} == {
        '{"facts":"' + FACTS[:190] + f"…[cut: {len(FACTS) + 12 - 200:,} characters]"
    }


async def fat(on: OnPostgres, text: str, count: int) -> None:
    """Messages of a run that is long over, as an earlier version may have left them."""
    run = await on.process.start()
    await on.process.conclude(run)
    rows = [
        {
            "agent_id": run.agent_id,
            "session_id": run.session_id,
            "run_id": run.run_id,
            "seq": n + 1,
            "kind": "reply" if n % 2 else "observation",
            "role": "assistant" if n % 2 else "user",
            "content": text,
        }
        for n in range(count)
    ]
    async with on.process.database.transaction() as connection:
        await connection.execute(sa.insert(messages), rows)
        await connection.execute(sa.update(sessions).values(last_seq=count))


async def test_a_short_but_huge_conversation_compacts_before_the_next_request(on: OnPostgres, server: Model) -> None:
    text = FACTS[: len(FACTS) * 7_600 // COUNT(FACTS)]
    await fat(on, text, 5)

    ended = await on.run(Trigger.REQUEST)

    assert ended.outcome is Outcome.HELD
    state = server.get("state")
    assert state["max_prompt_tokens"] <= 30_000 - 2_048
    assert (state["violations"], state["overflows"]) == (0, 0)
    record = await on.record()
    assert record.session.context_tokens == state["last_prompt_tokens"]
    assert record.session.compactions == 1
    row = (await on.process.rows("SELECT * FROM compactions"))[0]
    assert (row["method"], row["runs_left"]) == ("Summary", [1])
    assert row["tokens_before"] > 38_000
    assert row["tokens_after"] < 8_000
    assert [e for e in on.cluster.events if e[0] == "Compacted"]
    left = await on.process.rows("SELECT content, left_prompt_because AS why FROM messages WHERE run_id = 1")
    assert [(r["content"], r["why"]) for r in left] == [(text, "compacted")] * 5


async def test_many_runs_in_a_small_window_stay_valid_and_within_it(on: OnPostgres, server: Model) -> None:
    on.spec = {"context": {"tokenBudget": 5_000}, "model": {"maxOutputTokens": 512}}
    await on.say("prefer hosts in the EU")

    for n in range(30):
        await on.process.runs.persist((await on.record()).id, Trigger.FEEDBACK, f"message:{n}", f"[sim] say number {n}")
        if n % 7 == 3:
            server.put("faults", {"name": "A20", "times": 2})
        ended = await on.run()
        server.delete("faults")
        assert ended.outcome in {Outcome.HELD, Outcome.FAILED}, ended

    state, record = server.get("state"), await on.record()
    assert (state["violations"], state["overflows"]) == (0, 0)
    assert state["max_prompt_tokens"] <= 5_000 - 512
    assert record.session.compactions >= 2
    newest = server.requests()[-1]["body"]["messages"]
    assert [m for m in newest if m["content"] == "prefer hosts in the EU"]
    counts = await on.process.rows("SELECT count(DISTINCT run_id) AS runs FROM messages")
    assert counts[0]["runs"] == 30
    assert record.session.summary is not None
