"""How runs end: what stays in the prompt, what is written down, and what a failure in the middle leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from fleetagent.agent.desk import Desk
from fleetagent.agent.tools import TOOLS, Tool
from fleetagent.domain.conversation.messages import Kind, Left
from fleetagent.domain.records import ActionState, Outcome
from fleetagent.domain.schedule import Trigger, Wake
from fleetagent.errors import BadPrompt, BadReply, BadResource, LeaseLost, TryLater
from support.fakes import StrictModel, calls, says
from support.fleets import NOW
from support.rehearsal import Rehearsal, a_tool

PRICES = {"usdPerMillionTokens": {"input": "1.00", "output": "2.00"}}


def left(on: Rehearsal, run_id: int) -> set[Left | None]:
    return {r.left for r in on.memory.rows if r.message.run_id == run_id}


def acting(state: ActionState) -> Tool:
    async def act(desk: Desk) -> dict[str, Any]:
        desk.services.runs.act(desk.run.run_id, state)  # type: ignore[attr-defined]
        return {"ok": state is ActionState.DONE}

    return a_tool("act", act)


def failing(how: Callable[[], Exception]) -> Tool:
    async def fail(_: Desk) -> dict[str, Any]:
        raise how()

    return a_tool("fail", fail)


async def test_a_run_with_nothing_in_it_but_looking_leaves_the_prompt_and_stays_in_the_audit() -> None:
    on = Rehearsal(StrictModel(calls("get_fleet"), says()))

    assert (await on.run()).outcome is Outcome.HELD

    assert on.memory.concluded[1].quiet
    assert left(on, 1) == {Left.QUIET}
    assert len(on.memory.rows) == 4


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (ActionState.DONE, Outcome.ACTED),
        (ActionState.UNKNOWN, Outcome.UNCLEAR),
        (ActionState.INTENDED, Outcome.UNCLEAR),
        (ActionState.REFUSED, Outcome.REFUSED),
        (ActionState.FAILED, Outcome.REFUSED),
    ],
)
async def test_whatever_stands_in_the_ledger_keeps_a_run_in_the_prompt(state: ActionState, outcome: Outcome) -> None:
    on = Rehearsal(StrictModel(calls("act"), says()), (acting(state),))

    assert (await on.run()).outcome is outcome

    conclusion = on.memory.concluded[1]
    happened = state in {ActionState.DONE, ActionState.UNKNOWN, ActionState.INTENDED}
    assert conclusion.verdict == {"action": happened, "state_changed": happened}
    assert conclusion.verdict_said == {"action": False, "state_changed": False}, "as the model said it, untrue or not"
    assert left(on, 1) == {None}


@pytest.mark.parametrize("kind", [Trigger.EVENT, Trigger.SPEC_CHANGE])
async def test_a_world_that_changed_by_itself_is_a_changed_state_without_an_action(kind: Trigger) -> None:
    on = Rehearsal(StrictModel(says()))
    on.memory.say("machine 9001 proves at 80 p/h", kind)

    await on.run()

    assert on.memory.concluded[1].verdict == {"action": False, "state_changed": True}


@pytest.mark.parametrize(
    "call",
    [
        ("schedule_next_check", {"minutes": 5, "reason": "look"}),
        ("cancel_check", {"id": 1}),
        ("raise_alert", {"severity": "info", "message": "look"}),
    ],
    ids=lambda call: call[0],
)
async def test_wakes_and_alerts_keep_a_run_in_the_prompt(call: tuple[str, dict[str, Any]]) -> None:
    on = Rehearsal(StrictModel(calls(call), says()), TOOLS)
    on.memory.wakes.append(Wake(1, NOW + timedelta(hours=1), "later", 0))

    await on.run()

    assert left(on, 1) == {None}


async def test_feedback_and_a_due_wake_keep_a_run_in_the_prompt() -> None:
    on = Rehearsal(StrictModel(says(), says()))
    on.memory.say("prefer hosts in the EU")
    await on.run()
    on.memory.wakes.append(Wake(1, NOW, "check 33014980", 1))
    await on.run()

    assert [left(on, 1), left(on, 2)] == [{None}, {None}]


async def test_a_message_reaches_the_model_verbatim_and_once() -> None:
    model = StrictModel(says(), says())
    on = Rehearsal(model)
    on.memory.say("prefer hosts in the EU")

    await on.run()
    await on.run()

    assert [t for t in model.texts(0) if "EU" in t] == ["prefer hosts in the EU"]
    assert [t for t in model.texts(1) if "EU" in t] == ["prefer hosts in the EU"]
    assert sum(r.message.kind is Kind.FEEDBACK for r in on.memory.rows) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TryLater("the model server is not available (Timeout)"), "Unavailable"),
        (BadReply("no choices"), "BadReply"),
        (BadResource("ModelAvailable", "KeyRefused", "put in another key"), "KeyRefused"),
    ],
)
async def test_a_failure_of_the_model_is_told_as_such_and_never_booked_as_quiet(error: Exception, reason: str) -> None:
    on = Rehearsal(StrictModel(error))

    ended = await on.run()

    assert ended.outcome is Outcome.FAILED
    assert ended.model_problem is not None
    assert ended.model_problem[0] == reason
    assert str(error) in ended.model_problem[1]
    conclusion = on.memory.concluded[1]
    assert (conclusion.quiet, conclusion.fingerprint, conclusion.model_failed) == (False, None, True)
    assert left(on, 1) == {None}
    recovered = await on.run()
    assert (recovered.outcome, recovered.model_problem, recovered.model_asked) == (Outcome.HELD, None, True)


async def test_a_prompt_that_cannot_be_sent_is_our_fault_and_never_the_models() -> None:
    model = StrictModel(BadPrompt("the request can't be written as JSON"))
    on = Rehearsal(model)

    ended = await on.run()

    assert (ended.outcome, ended.model_problem) == (Outcome.FAILED, None)
    conclusion = on.memory.concluded[1]
    assert (conclusion.reason, conclusion.model_failed) == ("InvalidPrompt", None)


async def test_an_endpoint_that_cannot_be_named_is_a_failure_without_a_call() -> None:
    on = Rehearsal(BadResource("ModelAvailable", "SecretMissing", "make the Secret llm"))

    ended = await on.run()

    assert ended.model_problem == ("SecretMissing", "make the Secret llm")
    assert (ended.model_asked, on.memory.concluded[1].model_calls) == (False, 0)


async def test_tokens_and_money_are_booked_answer_by_answer_also_when_the_run_fails() -> None:
    on = Rehearsal(StrictModel(calls("get_fleet"), TryLater("gone")), spec={"model": PRICES})

    await on.run()

    booked, conclusion = on.memory.booked[1], on.memory.concluded[1]
    assert booked.tokens_in > 500
    assert booked.usd == Decimal(booked.tokens_in + 2 * booked.tokens_out) / 1_000_000
    assert (conclusion.tokens_in, conclusion.usd, conclusion.model_calls) == (booked.tokens_in, booked.usd, 2)


async def test_what_the_server_does_not_count_is_estimated_and_not_free() -> None:
    model = StrictModel()
    on = Rehearsal(model)

    async def uncounted(_: Any) -> Any:
        return says()

    model.reply = uncounted  # type: ignore[method-assign, assignment]
    await on.run()

    assert on.memory.booked[1].tokens_in > 500
    assert on.memory.session.context_tokens is None, "what people see is the backend's count, or nothing"


async def test_used_up_tokens_fail_the_run_without_a_call() -> None:
    model = StrictModel(says())
    on = Rehearsal(model, spec={"budget": {"modelTokensPerDay": 1000}})
    await on.run()

    ended = await on.run(Trigger.REQUEST)

    assert ended.model_problem is not None
    assert ended.model_problem[0] == "TokensUsedUp"
    assert len(model.requests) == 1


async def test_a_memory_that_fails_inside_a_tool_is_an_answer_to_the_model() -> None:
    model = StrictModel(calls("fail"), says())
    on = Rehearsal(model, (failing(lambda: TryLater("database: gone")),))

    assert (await on.run()).outcome is Outcome.HELD
    assert "fail is not possible now: database: gone" in model.texts()[-1]


async def test_a_memory_that_fails_in_the_middle_gives_the_run_back_and_does_not_blame_the_model() -> None:
    on = Rehearsal(StrictModel(calls("look"), says(), says()), (a_tool("look", {}),))
    on.memory.say("be frugal")
    append: Callable[..., Awaitable[None]] = on.memory.append

    async def once(*args: Any) -> None:
        if args[1][0].kind is Kind.TOOL_RESULT:
            on.memory.append = append  # type: ignore[method-assign, assignment]
            raise TryLater("database: gone")
        await append(*args)

    on.memory.append = once  # type: ignore[method-assign, assignment]

    with pytest.raises(TryLater, match="database: gone"):
        await on.run()

    assert on.memory.interrupted == {1: "database: gone"}
    assert left(on, 1) == {Left.INTERRUPTED}
    assert on.memory.booked[1].model_calls == 1
    assert (await on.run()).run.calls.kinds == (Trigger.SCHEDULE, Trigger.FEEDBACK)


@pytest.mark.parametrize("how", ["lease", "session"])
async def test_who_lost_the_lease_or_the_session_writes_nothing_more(how: str) -> None:
    on = Rehearsal(StrictModel(calls("lose"), says()))

    async def lose(_: Desk) -> dict[str, Any]:
        if how == "lease":
            on.memory.token += 1
        else:
            await on.memory.start_session()
        return {}

    on.tools = (a_tool("lose", lose),)
    with pytest.raises(LeaseLost):
        await on.run()

    assert on.memory.concluded == {}
    assert not any(r.message.kind is Kind.TOOL_RESULT for r in on.memory.rows)
    assert await on.memory.in_prompt(2) == ()
    assert (await on.run()).outcome is Outcome.HELD


async def test_a_cancelled_run_gives_back_and_the_next_one_is_clean() -> None:
    begun = asyncio.Event()

    async def wait(_: Desk) -> dict[str, Any]:
        begun.set()
        await asyncio.Event().wait()
        return {}

    on = Rehearsal(StrictModel(calls("wait"), says()), (a_tool("wait", wait),))
    task = asyncio.create_task(on.run(Trigger.REQUEST))
    await begun.wait()
    task.cancel("the session is reset")
    with pytest.raises(asyncio.CancelledError):
        await task

    assert on.memory.interrupted == {1: "the session is reset"}
    assert left(on, 1) == {Left.INTERRUPTED}
    assert (await on.run()).outcome is Outcome.HELD


async def test_a_run_that_is_cancelled_once_more_while_it_gives_back_has_given_back() -> None:
    begun, giving, may_give = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(_: Desk) -> dict[str, Any]:
        begun.set()
        await asyncio.Event().wait()
        return {}

    on = Rehearsal(StrictModel(calls("wait"), says()), (a_tool("wait", wait),))
    interrupt: Callable[..., Awaitable[None]] = on.memory.interrupt

    async def slowly(*args: Any, **more: Any) -> None:
        giving.set()
        await may_give.wait()
        await interrupt(*args, **more)

    on.memory.interrupt = slowly  # type: ignore[method-assign]
    task = asyncio.create_task(on.run(Trigger.REQUEST))
    await begun.wait()
    task.cancel("spec.mode is Suspended")
    await giving.wait()
    task.cancel("the process ends")
    await asyncio.sleep(0)
    may_give.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert on.memory.interrupted == {1: "spec.mode is Suspended"}
