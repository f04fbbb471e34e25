"""A run ends by the clock on the wall, whatever it waits for, and the next one is a run like any other."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from fleetagent.domain.model import ModelRequest, Reply
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from support.fakes import StrictModel, calls, says
from support.rehearsal import LONGEST, Rehearsal, a_tool


class Silent(StrictModel):
    """Takes every request and answers none."""

    async def reply(self, request: ModelRequest) -> Reply:
        del request
        await asyncio.Event().wait()
        raise AssertionError


async def never(_: Any) -> None:
    """A tool that waits for what does not come."""
    await asyncio.Event().wait()


@pytest.mark.parametrize("model", [Silent(), StrictModel(calls("wait"))], ids=["model", "tool"])
async def test_a_run_that_waits_for_ever_is_ended_says_so_and_is_not_quiet(model: StrictModel) -> None:
    on = Rehearsal(model, (a_tool("wait", never),), longest=timedelta(0))

    ended = await on.run()

    assert ended.outcome is Outcome.NO_PROGRESS
    assert ended.error == "the run took longer than 0 min and was ended"
    assert not on.memory.concluded[1].quiet


async def test_the_next_run_goes_on_from_a_call_that_the_clock_cut_off() -> None:
    model = StrictModel(calls("wait"), says())
    on = Rehearsal(model, (a_tool("wait", never),), longest=timedelta(0))
    await on.run()
    on.longest = LONGEST

    ended = await on.run(Trigger.REQUEST)

    assert ended.outcome is Outcome.HELD
    assert any("No result was recorded for this call" in text for text in model.texts())
