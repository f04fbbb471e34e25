"""A run is booked as quiet only when it asked for nothing that it did not get."""

from dataclasses import replace
from typing import Any

import pytest

from fleetagent.agent.desk import Desk
from fleetagent.agent.tools import TOOLS
from fleetagent.domain.conversation.calls import MAX_CALLS
from fleetagent.domain.model import Reply, Usage
from fleetagent.domain.records import Outcome
from fleetagent.errors import TryLater
from support.fakes import StrictModel, calls, says
from support.rehearsal import Rehearsal, a_tool

LOOK = a_tool("look", {"machines": 1})
UNREAD = Reply(
    '<tool_call>{"name": "act"', (), cut_off=False, usage=Usage(), finish_reason="stop", unread="since it is not whole"
)
NOT_QUIET = {
    "broken arguments": calls(("act", '{"n": 1')),
    "an unknown tool": calls("dance"),
    "a namespaced tool": calls("functions.act"),
    "a wrong type": calls(("schedule_next_check", {"minutes": "soon", "reason": "x"})),
    "calls that were cut off": calls("act", cut_off=True),
    "words that were cut off": says("The fleet is on tar", cut_off=True),
    "a call as text that can't be read": UNREAD,
    "calls that were announced and did not come": replace(says("I launch."), finish_reason="tool_calls"),
    "too many calls": calls(*["act"] * 200),
    "a tool that failed": calls("broken"),
}


@pytest.mark.parametrize("reply", NOT_QUIET.values(), ids=NOT_QUIET)
async def test_a_run_that_did_not_get_what_it_asked_for_is_never_quiet(reply: Reply) -> None:
    async def broken(_: Desk) -> dict[str, Any]:
        raise TryLater("the market does not answer")

    made: list[int] = []

    async def act(_: Desk) -> dict[str, int]:
        made.append(1)
        return {"calls": len(made)}

    schedule = next(t for t in TOOLS if t.name == "schedule_next_check")
    model = StrictModel(reply, says())
    on = Rehearsal(model, (a_tool("act", act), schedule, a_tool("broken", broken)))

    ended = await on.run()

    assert ended.outcome is Outcome.HELD
    assert not on.memory.concluded[1].quiet
    assert on.memory.concluded[1].fingerprint is None
    assert len(made) == (MAX_CALLS if len(reply.calls) > MAX_CALLS else 0)
    assert len(model.requests) == 2  # it was told why, and asked again
    assert any(w in model.texts()[-1] for w in ("executed", "no tool", "nothing was done", "not possible"))
    assert (await on.run()).outcome is Outcome.HELD


async def test_a_run_that_only_looked_is_quiet() -> None:
    on = Rehearsal(StrictModel(calls("look"), says()), (LOOK,))

    await on.run()

    assert on.memory.concluded[1].quiet
