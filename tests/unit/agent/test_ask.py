"""What one answer of the model costs, and what its failures are called."""

from dataclasses import replace

import pytest

from fleetagent.domain.model import NothingUsable, Usage
from fleetagent.domain.records import Outcome
from fleetagent.errors import BadReply, BadResource, FleetAgentError, ModelLoading, TryLater
from support.fakes import StrictModel, says
from support.rehearsal import Rehearsal

THOUGHTS = replace(says(""), usage=Usage(prompt_tokens=1000, completion_tokens=2048))
ANSWER = replace(says(), usage=Usage(prompt_tokens=1000, completion_tokens=30))


async def test_answers_that_were_thrown_away_are_booked_with_the_one_that_came_after_them() -> None:
    on = Rehearsal(StrictModel(replace(ANSWER, discarded=(THOUGHTS,))))

    await on.run()

    spent, booked = on.memory.concluded[1], on.memory.booked[1]
    assert (spent.tokens_in, spent.tokens_out, spent.model_calls) == (2000, 2078, 2)
    assert (booked.tokens_in, booked.tokens_out, booked.model_calls) == (2000, 2078, 2)


async def test_answers_of_which_none_could_be_used_are_booked_as_well() -> None:
    on = Rehearsal(StrictModel(NothingUsable("thoughts alone, twice", replace(THOUGHTS, discarded=(THOUGHTS,)))))

    assert (await on.run()).outcome is Outcome.FAILED

    spent, booked = on.memory.concluded[1], on.memory.booked[1]
    assert (spent.tokens_in, spent.tokens_out, spent.model_calls) == (2000, 4096, 2)
    assert (booked.tokens_in, booked.tokens_out, booked.model_calls) == (2000, 4096, 2)


@pytest.mark.parametrize(
    ("error", "reason", "remedy"),
    [
        (TryLater("503: busy"), "Unavailable", "see that http"),
        (ModelLoading("503: Loading model"), "ModelLoading", "A large model loads for many minutes"),
        (BadReply("no choices, twice"), "BadReply", "scripted with tools"),
        (NothingUsable("no choices, twice"), "BadReply", "scripted with tools"),
        (BadResource("ModelAvailable", "KeyRefused", "put a valid key into the Secret"), "KeyRefused", "valid key"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_each_failure_has_its_reason_and_says_what_to_do(
    error: FleetAgentError, reason: str, remedy: str
) -> None:
    on = Rehearsal(StrictModel(error))

    ended = await on.run()

    assert ended.model_problem is not None
    assert ended.model_problem[0] == reason
    assert str(error) in ended.model_problem[1]
    assert remedy in ended.model_problem[1]
    assert not on.memory.concluded[1].quiet
