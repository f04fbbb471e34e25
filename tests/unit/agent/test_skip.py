"""When the model need not be asked, and when it must be."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from fleetagent.agent.desk import Desk
from fleetagent.domain.demand import Demand
from fleetagent.domain.fleet import Offer, Phase
from fleetagent.domain.observation import Observation
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger, Wake
from fleetagent.errors import Denied, TryLater, Unclear
from support.fakes import StrictModel, calls, says
from support.fleets import NOW, an_instance, an_observation, an_offer, unknown_fleet
from support.rehearsal import Rehearsal, a_tool

LATER = timedelta(minutes=5)


@dataclass
class Offers:
    """A market of which only the offers are asked."""

    now: list[Offer] = field(default_factory=lambda: [an_offer()])
    fails: bool = False

    async def offers(self, *_: Any) -> tuple[Offer, ...]:
        if self.fails:
            raise TryLater("the market is away")
        return tuple(self.now)


async def a_quiet_run(**changes: Any) -> tuple[Rehearsal, StrictModel]:
    """A rehearsal after one quiet run, five minutes later."""
    model = StrictModel(calls("get_fleet"), *[says()] * 3)
    on = Rehearsal(model, **{"market": Offers(), **changes})
    await on.run()
    assert on.memory.concluded[1].quiet
    on.now += LATER
    model.requests.clear()
    return on, model


def off_target(**changes: Any) -> Observation:
    return an_observation(an_instance(), wanted=500, **changes)


async def test_nothing_new_is_skipped_without_a_call_or_a_message() -> None:
    on, model = await a_quiet_run()
    rows = len(on.memory.rows)

    ended = await on.run()

    assert (ended.outcome, ended.model_asked) == (Outcome.SKIPPED, False)
    assert model.requests == []
    assert len(on.memory.rows) == rows
    assert on.memory.concluded[2].model_calls == 0


@pytest.mark.parametrize("kind", [k for k in Trigger if k is not Trigger.SCHEDULE])
async def test_whatever_else_called_for_the_run_is_never_skipped(kind: Trigger) -> None:
    on, model = await a_quiet_run()
    if kind is Trigger.WAKE:
        on.memory.wakes.append(Wake(7, on.now, "look", 1))
    elif kind is not Trigger.APPROVAL:
        on.memory.say("news", kind)

    ended = await on.run(*([kind] if kind is Trigger.APPROVAL else []))

    assert kind in ended.run.calls.kinds
    assert len(model.requests) > 0


CHANGES: dict[str, Observation] = {
    "a machine more": an_observation(an_instance(), an_instance("9002"), wanted=100),
    "a phase": an_observation(an_instance(), an_instance("9002", Phase.LOADING), wanted=100),
    "demand": an_observation(an_instance(), wanted=100, demand=Demand(active=False)),
    "demand unknown": replace(an_observation(an_instance(), wanted=100), target=None),
    "fleet unknown": an_observation(fleet=unknown_fleet()),
    "an alert": an_observation(an_instance(), wanted=100, open_alerts=1),
    "a new UTC day": an_observation(an_instance(), wanted=100, at=NOW + timedelta(hours=12)),
    "off target": off_target(),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_changed_world_is_never_skipped(what: str) -> None:
    on, model = await a_quiet_run()
    on.seen = CHANGES[what]

    await on.run()

    assert len(model.requests) > 0


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


class TestOffTarget:
    """There the offers belong to what the world looks like, and a quarter of an hour is the most."""

    @pytest.mark.parametrize(("minutes", "skipped"), [(14, True), (15, False)])
    async def test_at_most_fifteen_minutes_pass(self, minutes: int, skipped: bool) -> None:  # noqa: FBT001
        on, model = await a_quiet_run(seen=off_target())
        on.now = NOW + timedelta(minutes=minutes)

        await on.run()

        assert (model.requests == []) is skipped

    @pytest.mark.parametrize(
        "offers",
        [[], [an_offer(), an_offer("7002", usd_per_hour="0.40")], [an_offer(usd_per_hour="0.45")]],
        ids=["gone", "a better one", "cheaper"],
    )
    async def test_other_offers_are_news(self, offers: list[Offer]) -> None:
        on, model = await a_quiet_run(seen=off_target())
        on.market.now = offers

        await on.run()

        assert len(model.requests) > 0

    async def test_offers_that_cannot_be_read_are_not_the_same_offers(self) -> None:
        on, model = await a_quiet_run(seen=off_target(), market=Offers(fails=True))
        assert on.memory.quiet is None

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
