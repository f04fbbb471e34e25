"""Many runs in a row: every request valid, within the budget and on the bytes of the last, and the audit whole."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fleetagent.agent.tools import TOOLS
from fleetagent.domain.conversation.messages import Kind
from fleetagent.domain.model import ModelRequest
from fleetagent.domain.records import ActionState, Outcome
from fleetagent.errors import TryLater
from support.fakes import Line, StrictModel, calls, says
from support.fleets import an_instance, an_observation
from support.rehearsal import Rehearsal, a_tool

BUDGET_TOKENS = 5_000
REPLY_TOKENS = 512
SUMMARY = "Fleet\n9001 proves as planned.\nDecisions\nLaunched one machine per run while below the target.\n"
SPEC: dict[str, Any] = {
    "context": {"tokenBudget": BUDGET_TOKENS},
    "model": {"maxOutputTokens": REPLY_TOKENS},
    "schedule": {"skipUnchanged": False},
}


def acting() -> Any:
    """A tool that leaves an action in the ledger, so that no run is quiet."""

    async def act(desk: Any) -> dict[str, Any]:
        desk.services.runs.act(desk.run.run_id, ActionState.DONE)
        return {"ok": True, "instance_id": f"90{desk.run.run_id:05d}", "facts": "at 42.5 proofs/h; " * 20}

    return a_tool("act", act)


def sequence(n: int) -> list[Any]:
    """What the model says in run `n`: mostly well, sometimes not."""
    if n % 17 == 0:
        return [TryLater("the model server is away")]
    if n % 13 == 0:
        return [calls(("act", '{"broken'), cut_off=True), calls("act"), says("Launched one.")]
    return [calls("act", "act"), says(f"Launched two machines in run {n}.")]


def shares(requests: Sequence[ModelRequest]) -> list[float]:
    """How much of each request the next one begins with, tools included: they stand first in the prompt."""
    texts = [repr((r.tools, r.messages)) for r in requests]
    return [
        next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))) / len(a)
        for a, b in itertools.pairwise(texts)
    ]


async def test_a_hundred_and_fifty_runs_in_a_small_window_never_break_a_rule() -> None:
    model = StrictModel(window=BUDGET_TOKENS)
    on = Rehearsal(model, (acting(),), SPEC)
    ways: list[Line] = [says(SUMMARY), says(""), says(SUMMARY, cut_off=True), calls("act"), TryLater("gone")]

    for n in range(1, 151):
        model.script = sequence(n)
        model.summaries = [ways[n % len(ways)]]
        if n == 100:
            on.memory.say("prefer hosts in the EU")
        on.seen = replace(an_observation(an_instance(), wanted=100), open_alerts=n % 3)
        ended = await on.run()
        assert ended.outcome is (Outcome.FAILED if n % 17 == 0 else Outcome.ACTED), (n, ended)

    assert max(model.prompt_tokens) <= BUDGET_TOKENS - REPLY_TOKENS
    methods = {c["method"] for c in on.memory.compactions}
    assert {"Summary", "Digest"} <= methods
    assert on.memory.session.compactions == len(on.memory.compactions) < 75
    assert len({c["run_id"] for c in on.memory.compactions}) == len(on.memory.compactions), "at most one a run"
    assert len({r.message.run_id for r in on.memory.rows}) == 150, "the audit has every run"
    assert "prefer hosts in the EU" in model.texts()
    assert sum(r.message.kind is Kind.FEEDBACK for r in on.memory.rows) == 1
    assert {c.usd for c in on.memory.concluded.values()} == {0}


async def test_between_compactions_each_run_begins_with_the_bytes_of_the_one_before() -> None:
    model = StrictModel()
    on = Rehearsal(model, (acting(), *TOOLS), {"schedule": {"skipUnchanged": False}})
    for n in range(1, 16):
        model.script = [calls("act"), says(f"Launched one in run {n}.")]
        await on.run()

    assert on.memory.compactions == []
    assert min(shares(model.requests[::2])) >= 0.99
    assert len({repr(r.tools) for r in model.requests}) == 1
    assert len({repr(r.messages[0]) for r in model.requests}) == 1


async def test_quiet_runs_leave_the_prefix_as_it_was() -> None:
    model = StrictModel()
    on = Rehearsal(model, (acting(), *TOOLS), {"schedule": {"skipUnchanged": False}})
    model.script = [calls("act"), says("Launched one.")]
    await on.run()
    for _ in range(5):
        model.script = [calls("get_fleet"), says()]
        await on.run()

    assert min(shares(model.requests[2::2])) >= 0.95
    assert len({len(r.messages) for r in model.requests[2::2]}) == 1


async def test_what_a_run_saw_whole_costs_the_next_one_little() -> None:
    facts = "instance 33014980 proves at 42.5 proofs/h; " * 640
    model = StrictModel()
    on = Rehearsal(model, (a_tool("look", {"facts": facts}),), {"schedule": {"skipUnchanged": False}})
    model.script = [says()]
    await on.run()
    empty = model.prompt_tokens[-1]

    for _ in range(2):
        on.memory.say("look closely")
        model.script = [calls("look"), says()]
        await on.run()
        assert facts in model.texts()[-1]
        assert model.prompt_tokens[-1] - model.prompt_tokens[-2] > 12_000
    model.script = [says()]
    await on.run()

    assert model.prompt_tokens[-1] - empty <= 600


@pytest.mark.parametrize("instructions", ["", "Prefer the EU. " * 50])
async def test_standing_orders_survive_any_number_of_compactions(instructions: str) -> None:
    model = StrictModel()
    on = Rehearsal(model, (acting(),), {**SPEC, "instructions": instructions})
    for n in range(1, 41):
        model.script = [calls("act"), says(f"Launched one in run {n}.")]
        model.summaries = [says(SUMMARY)]
        await on.run()

    assert len(on.memory.compactions) > 2
    assert instructions.strip() in str(model.requests[-1].messages[0]["content"])
    assert "Budget: 4.00 USD per hour" in str(model.requests[-1].messages[0]["content"])
