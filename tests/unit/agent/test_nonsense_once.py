"""Nonsense that a server or a clock says once does not keep the model from being asked for ever."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetagent.agent.counting import DOUBTED_EVERY_RUNS
from fleetagent.domain.model import ModelRequest, Reply, Usage
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from support.fakes import StrictModel, says
from support.quiet import a_quiet_run
from support.rehearsal import COUNT, Rehearsal

SMALL = {"context": {"tokenBudget": 6_000}, "schedule": {"skipUnchanged": False}}


class WrongOnce(StrictModel):
    """Counts so many times too much in its first answer, and well from then on."""

    def __init__(self, times: float) -> None:
        super().__init__(*[says()] * 40)
        self.times = times

    async def reply(self, request: ModelRequest) -> Reply:
        """As ever, but for the first count."""
        reply = await super().reply(request)
        times, self.times = self.times, 1.0
        return replace(reply, usage=Usage(int((reply.usage.prompt_tokens or 0) * times), 10, None))


@pytest.mark.parametrize("times", [1.8, 2.5, 4.0, 8.0])
@pytest.mark.parametrize("runs_before", [0, 5])
async def test_a_count_that_is_far_too_high_once_keeps_the_model_from_being_asked_for_a_few_runs_at_most(
    times: float, runs_before: int
) -> None:
    model = WrongOnce(1.0 if runs_before else times)
    on = Rehearsal(model, spec=SMALL)
    for _ in range(runs_before):
        await on.run(Trigger.REQUEST)
    model.times = times  # the moment at which it goes wrong
    await on.run(Trigger.REQUEST)

    outcomes = [(await on.run(Trigger.REQUEST)).outcome for _ in range(DOUBTED_EVERY_RUNS + 6)]

    assert outcomes[DOUBTED_EVERY_RUNS:] == [Outcome.HELD] * 6


async def test_a_server_that_truly_counts_more_than_the_budget_holds_is_asked_in_one_run_of_so_many() -> None:
    model = StrictModel(*[says()] * 40, counts_more=2.5)
    on = Rehearsal(model, spec={**SMALL, "context": {"tokenBudget": 4_000}})

    outcomes = [(await on.run(Trigger.REQUEST)).outcome for _ in range(4 * DOUBTED_EVERY_RUNS)]

    assert outcomes[1:].count(Outcome.HELD) == 3
    assert outcomes.count(Outcome.CONTEXT_FULL) == len(outcomes) - 4


async def test_a_prompt_that_is_too_long_by_any_count_is_never_sent_however_often_it_is_doubted() -> None:
    on = Rehearsal(model := StrictModel(), spec={**SMALL, "instructions": "be frugal. " * 1_400})
    assert COUNT("be frugal. " * 1_400) > 4_000

    outcomes = {(await on.run(Trigger.REQUEST)).outcome for _ in range(8)}

    assert (outcomes, model.requests) == ({Outcome.CONTEXT_FULL}, [])


async def test_a_quiet_run_at_a_moment_that_has_not_come_yet_proves_nothing() -> None:
    on, model = await a_quiet_run()
    assert on.memory.quiet is not None
    on.memory.quiet = replace(on.memory.quiet, at=on.now + timedelta(hours=9))

    ended = await on.run()

    assert (ended.outcome, len(model.requests) > 0) == (Outcome.HELD, True)
