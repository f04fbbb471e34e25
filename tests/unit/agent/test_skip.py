"""When the model need not be asked, and when it must be."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from fleetagent.agent.desk import Desk
from fleetagent.domain.approval import Decided
from fleetagent.domain.demand import Demand
from fleetagent.domain.fleet import MarketStatus, Phase
from fleetagent.domain.observation import Alert, LaunchProblem, Observation
from fleetagent.domain.records import Outcome, Pulse
from fleetagent.domain.schedule import Pending, Trigger, Wake
from fleetagent.errors import Denied, TryLater, Unclear
from support.fakes import StrictModel, calls, says
from support.fleets import NOW, a_waiting, an_instance, an_observation, unknown_fleet
from support.memory import Memory
from support.quiet import LATER, Offers, a_quiet_run, off_target
from support.rehearsal import Rehearsal, a_tool


async def test_nothing_new_is_skipped_without_a_call_or_a_message() -> None:
    on, model = await a_quiet_run()
    rows = len(on.memory.rows)

    ended = await on.run()

    assert (ended.outcome, ended.model_asked) == (Outcome.SKIPPED, False)
    assert model.requests == []
    assert len(on.memory.rows) == rows
    assert on.memory.concluded[2].model_calls == 0


@pytest.mark.parametrize("kind", [k for k in Trigger if k not in {Trigger.SCHEDULE, Trigger.APPROVAL}])
async def test_whatever_else_called_for_the_run_is_never_skipped(kind: Trigger) -> None:
    on, model = await a_quiet_run()
    if kind is Trigger.WAKE:
        on.memory.wakes.append(Wake(7, on.now, "look", 1))
    else:
        on.memory.say("news", kind)

    ended = await on.run()

    assert kind in ended.run.calls.kinds
    assert len(model.requests) > 0


CHANGES: dict[str, Observation] = {
    "a machine more": an_observation(an_instance(), an_instance("9002"), wanted=100),
    "a phase": an_observation(an_instance(), an_instance("9002", Phase.LOADING), wanted=100),
    "demand": an_observation(an_instance(), wanted=100, demand=Demand(active=False)),
    "demand unknown": replace(an_observation(an_instance(), wanted=100), target=None),
    "fleet unknown": an_observation(fleet=unknown_fleet()),
    "a machine that counts for nothing": an_observation(an_instance(market_status=MarketStatus.OFFLINE), wanted=100),
    "an alert": an_observation(an_instance(), wanted=100, open_alerts=1),
    "a launch is not possible": an_observation(
        an_instance(), wanted=100, launch_problem=LaunchProblem("SecretMissing", "…")
    ),
    "a new UTC day": an_observation(an_instance(), wanted=100, at=NOW + timedelta(hours=12)),
    "off target": off_target(),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_changed_world_is_never_skipped(what: str) -> None:
    on, model = await a_quiet_run()
    on.seen = CHANGES[what]

    await on.run()

    assert len(model.requests) > 0


async def test_another_alert_in_the_place_of_one_that_was_closed_is_news() -> None:
    def open_now(alert_id: int) -> Observation:
        return an_observation(
            an_instance(), wanted=100, open_alerts=1, alerts=(Alert(alert_id, "Model", "warning", "host fails"),)
        )

    on, model = await a_quiet_run(seen=open_now(7))
    on.seen = open_now(7)
    await on.run()
    assert model.requests == []
    on.seen = open_now(8)

    await on.run()

    assert len(model.requests) > 0


@dataclass
class SomethingWaits(Memory):
    """One action waits for somebody's approval."""

    async def pulse(self, agent_id: int, run_id: int, now: Any) -> Pulse:
        return replace(await super().pulse(agent_id, run_id, now), waiting=(a_waiting(),))


@dataclass
class SomethingWasDecided(Memory):
    """A person has rejected one, and the agent was not told."""

    async def pulse(self, agent_id: int, run_id: int, now: Any) -> Pulse:
        decided = (Decided(42, "action-42 was rejected by a person"),) if self.started > 1 else ()
        return replace(await super().pulse(agent_id, run_id, now), decided=decided)


async def test_while_an_action_waits_for_approval_no_run_is_skipped() -> None:
    on, model = await a_quiet_run(memory=SomethingWaits())

    await on.run()

    assert len(model.requests) > 0


async def test_what_a_person_decided_is_told_in_a_run_that_is_neither_skipped_nor_quiet() -> None:
    on, model = await a_quiet_run(memory=SomethingWasDecided())
    on.seen = replace(on.seen, decided=("action-42 was rejected by a person",))

    await on.run()

    assert "Decided: action-42 was rejected by a person." in model.texts()[-1]
    assert not on.memory.concluded[2].quiet
    assert on.memory.concluded[2].told == (42,)


async def test_a_run_for_approvals_alone_asks_no_model_and_tells_nothing() -> None:
    on, model = await a_quiet_run(memory=SomethingWasDecided())

    on.memory.pending = [Pending(1, Trigger.APPROVAL, "approve:action-42", "action-42", on.now)]
    ended = await on.run(Trigger.APPROVAL)

    assert (ended.outcome, ended.model_asked) == (Outcome.HELD, False)
    assert model.requests == []
    assert on.memory.concluded[2].told == ()
    assert not on.memory.concluded[2].quiet


async def test_a_changed_spec_is_never_skipped() -> None:
    on, model = await a_quiet_run()
    on.spec = {"limits": {"maxInstances": 3}}

    await on.run()

    assert len(model.requests) > 0


async def test_the_end_of_a_pause_is_never_skipped() -> None:
    pause = {"until": "2026-11-29T12:04:00Z", "reason": "dear"}
    on, model = await a_quiet_run(spec={"pause": pause})
    on.seen = replace(on.seen, at=on.now)

    await on.run()

    assert len(model.requests) > 0


async def test_an_action_that_is_not_settled_is_never_skipped() -> None:
    unsettled = an_observation(an_instance(), an_instance(None, Phase.REQUESTED), wanted=100)
    on, model = await a_quiet_run(seen=unsettled)

    await on.run()

    assert len(model.requests) > 0


async def test_after_a_failed_run_the_next_one_is_not_skipped() -> None:
    on, model = await a_quiet_run()
    model.script.insert(0, TryLater("gone"))
    assert (await on.run(Trigger.REQUEST)).outcome is Outcome.FAILED
    model.requests.clear()

    await on.run()

    assert len(model.requests) > 0


@pytest.mark.parametrize(("minutes", "skipped"), [(59, True), (60, False)])
async def test_on_target_the_model_looks_again_after_max_quiet(minutes: int, skipped: bool) -> None:  # noqa: FBT001
    on, model = await a_quiet_run()
    on.now = NOW + timedelta(minutes=minutes)

    await on.run()

    assert (model.requests == []) is skipped


@pytest.mark.parametrize("reply", [calls("get_fleet", cut_off=True), calls("no_such_tool"), says(cut_off=True)])
async def test_after_a_run_in_which_a_call_came_to_nothing_the_next_one_is_not_skipped(reply: Any) -> None:
    model = StrictModel(reply, *[says()] * 3)
    on = Rehearsal(model, market=Offers())
    await on.run()
    on.now += LATER
    model.requests.clear()

    await on.run()

    assert len(model.requests) > 0


async def test_skipped_runs_do_not_put_off_the_next_look() -> None:
    on, model = await a_quiet_run()
    for _ in range(10):
        await on.run()
        on.now += LATER
    assert (model.requests, on.now) == ([], NOW + timedelta(minutes=55))
    on.now += LATER

    await on.run()

    assert len(model.requests) > 0


@pytest.mark.parametrize("error", [TryLater("429: slow down"), Unclear("it broke"), Denied("OfferGone", "it is gone")])
async def test_after_a_tool_that_failed_the_world_is_looked_at_again(error: Exception) -> None:
    async def fail(_: Desk) -> dict[str, Any]:
        raise error

    model = StrictModel(calls("fail"), *[says()] * 2)
    on = Rehearsal(model, (a_tool("fail", fail),), market=Offers(), seen=off_target())
    await on.run()
    on.now += LATER
    model.requests.clear()

    await on.run()

    assert len(model.requests) > 0
    assert on.memory.quiet is not None, "the second run was quiet"


async def test_skip_unchanged_may_be_turned_off() -> None:
    on, model = await a_quiet_run()
    on.spec = {"schedule": {"skipUnchanged": False}}
    await on.run()
    model.requests.clear()

    await on.run()

    assert len(model.requests) > 0
