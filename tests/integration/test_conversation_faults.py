"""One session lives through every fault that model servers are known for: told, paid, never repeated, then clean."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleetagent.agent.tools import TOOLS
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.sim.model.faults import CATALOGUE
from support.on_postgres import OnPostgres, on_postgres
from support.rehearsal import a_tool
from support.servers import Model, a_model
from support.stores import a_process

FULL, STUCK, HELD = Outcome.CONTEXT_FULL, Outcome.NO_PROGRESS, Outcome.HELD

ENDS: dict[str, tuple[Outcome, str | None]] = {
    **dict.fromkeys(("A1", "A2", "A4", "A6"), (FULL, None)),
    **dict.fromkeys(("A16", "A16/litellm"), (Outcome.FAILED, "QuotaExceeded")),
    **dict.fromkeys(("A19b", "A19b/vllm", "A19b/llama.cpp"), (Outcome.FAILED, "KeyRefused")),
    "A19c": (Outcome.FAILED, "ModelNotFound"),
    "A19c/route": (Outcome.FAILED, "BadURL"),
    **dict.fromkeys(("A20", "A20/vllm", "A20/replayed", "A36", "A38", "A38/empty"), (Outcome.FAILED, "BadReply")),
    **dict.fromkeys(("A21/replayed", "A21/replayed-llama.cpp"), (Outcome.FAILED, "BadReply")),
    **dict.fromkeys(("A30", "A30/llama.cpp", "A31", "A31/llama.cpp"), (Outcome.FAILED, "BadReply")),
    **dict.fromkeys(("A21", "A21/length", "A36/length"), (STUCK, None)),
    **dict.fromkeys(("A22", "A22/null", "A24", "A25", "A27", "A27/qwen", "A36/stop"), (STUCK, None)),
    **dict.fromkeys(("A39", "A39/null", "A39/zero"), (HELD, None)),
}
"""How a run ends while the fault lasts; all others are a server that is away for a while."""

NEVER_CALLS = ("A21", "A21/length", "A36/length")
"""Faults whose calls came broken or cut off: nothing of them may be executed."""


@pytest.fixture(scope="module")
def server() -> Any:
    with a_model() as running:
        yield running


@pytest.fixture
async def on(database_url: str, server: Model) -> AsyncIterator[OnPostgres]:
    async with a_process(database_url) as process, on_postgres(process, server) as ready:
        yield ready


async def test_every_fault_is_told_and_the_next_run_is_clean(on: OnPostgres, server: Model) -> None:
    made: list[int] = []

    async def act(_: Any) -> dict[str, int]:
        made.append(1)
        return {"calls": len(made)}

    on.tools = (a_tool("act", act), *TOOLS)
    for name in CATALOGUE:
        server.put("faults", {"name": name, "times": None})
        before, asked = len(made), server.get("state")["requests"]
        ended = await on.run(Trigger.REQUEST)
        server.delete("faults")

        outcome, reason = ENDS.get(name, (Outcome.FAILED, "Unavailable"))
        row = await on.last()
        told = (name, ended.outcome, ended.model_problem, row["error"])
        assert ended.outcome is outcome, told
        assert (ended.model_problem[0] if ended.model_problem else None) == reason, told
        assert row["quiet"] is (outcome is HELD), told
        assert bool(row["error"]) is (outcome is not HELD), told
        executed = len(made) - before
        stored = await on.process.rows("SELECT run_id, content FROM messages WHERE role = 'tool'")
        results = [r["content"] for r in stored if r["run_id"] == row["run_id"]]
        assert executed == sum('{"calls":' in r for r in results), "each call once, its result written"
        assert executed == 0 or name not in NEVER_CALLS, told
        assert server.get("state")["requests"] - asked <= 12, told

        clean = await on.run(Trigger.REQUEST)
        assert (clean.outcome, clean.model_problem, clean.model_asked) == (HELD, None, True), (told, clean)

    state = server.get("state")
    assert state["violations"] == 0, state["violations_by_rule"]
    assert len(await on.process.rows("SELECT 1 FROM compactions WHERE method = 'Digest'")) <= 4


@pytest.mark.parametrize("name", ["A14", "A18", "A19/502", "A20", "A38", "A38/error"])
async def test_what_passes_by_itself_is_not_even_seen_by_the_run(on: OnPostgres, server: Model, name: str) -> None:
    server.put("faults", {"name": name, "times": 1})

    ended = await on.run()

    assert (ended.outcome, ended.error) == (HELD, None)
    assert server.get("state")["faults"] == []


async def test_a_failed_run_has_paid_for_the_answers_that_it_got(on: OnPostgres, server: Model) -> None:
    on.spec = {"model": {"usdPerMillionTokens": {"input": "1.00", "output": "2.00"}}}
    server.put("script", [{"calls": [{"name": "get_fleet"}]}, *[{"status": 401, "body": "no"}] * 3])

    ended = await on.run()
    server.put("script", [])

    row = await on.last()
    assert (ended.outcome, row["model_calls"]) == (Outcome.FAILED, 2)
    assert row["tokens_in"] > 1_000
    assert row["usd"] == await on.spent() > 0
