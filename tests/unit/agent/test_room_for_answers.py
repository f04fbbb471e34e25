"""A server whose window is the budget to the token, whatever tokenizer it has, refuses nothing for its length."""

import random
from typing import Any

import pytest

from fleetagent.agent.tools import TOOLS
from fleetagent.domain.model import ModelRequest, Reply
from fleetagent.domain.records import ActionState
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import PromptTooLong
from support.fakes import StrictModel, calls, says
from support.rehearsal import Rehearsal, a_tool

SUMMARY = "Fleet\nTwo machines prove as planned and more.\nDecisions\nHeld since run 1, as planned.\n"
RUNS = 25


class Exactly(StrictModel):
    """Remembers what it refused for its length, and how full it was otherwise."""

    def __init__(self, window: int, factor: float) -> None:
        super().__init__(window=window, counts_more=factor)
        self.refused: list[tuple[int, int]] = []
        self.fullest = 0

    async def reply(self, request: ModelRequest) -> Reply:
        try:
            reply = await super().reply(request)
        except PromptTooLong:
            self.refused.append((self.prompt_tokens[-1], request.max_output_tokens))
            raise
        self.fullest = max(self.fullest, self.prompt_tokens[-1] + request.max_output_tokens)
        return reply


def tools(chance: random.Random) -> tuple[Any, ...]:
    """Results of every size and kind of text; one of them has an effect, so that its runs stay."""

    async def rows(_: Any) -> dict[str, Any]:
        every = [{"id": 33_014_980 + n, "usd_per_hour": 0.4417 + n / 1e4, "rate": 68.25 + n} for n in range(120)]
        return {"instances": every[: chance.randint(3, 120)]}

    async def prose(_: Any) -> dict[str, Any]:
        return {"text": "The host was slow to answer and care was asked for. " * chance.randint(1, 400)}

    async def digits(_: Any) -> dict[str, Any]:
        return {"log": " ".join(f"{chance.getrandbits(64):016x}" for _ in range(chance.randint(1, 150)))}

    async def act(desk: Any) -> dict[str, Any]:
        desk.services.runs.act(desk.run.run_id, ActionState.DONE)
        return {"ok": True, "id": desk.run.run_id}

    return (*(a_tool(t.__name__, t) for t in (rows, prose, digits, act)), *TOOLS)


@pytest.mark.parametrize("factor", [1.0, 1.6])
@pytest.mark.parametrize("budget", [5_000, 8_000])
async def test_nothing_is_refused_not_even_by_one_token(budget: int, factor: float) -> None:
    chance = random.Random(budget)  # noqa: S311  # a test that repeats itself
    model = Exactly(budget, factor)
    spec = {"schedule": {"skipUnchanged": False}, "context": {"tokenBudget": budget}}
    on = Rehearsal(model, tools(chance), spec)

    for _ in range(RUNS):
        asked = [chance.choice(["rows", "prose", "digits", "act"]) for _ in range(chance.randint(0, 4))]
        model.script = [*(calls(name) for name in asked), says("As planned.")]
        model.summaries = [says(SUMMARY)]
        if chance.random() < 0.2:
            on.memory.say("careful " * chance.randint(1, 60))
        await on.run(Trigger.REQUEST)

    assert model.refused == []
    assert model.fullest >= budget * 0.97, "near enough to its end to mean something"
    assert {c["method"] for c in on.memory.compactions} & {"Summary", "Digest"}
