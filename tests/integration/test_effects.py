"""An effect and its record, on a real ledger and a market that does as a test says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fleetagent.agent.effects import MOST_ONE_BY_ONE, Effect, Effects, Wanted
from fleetagent.domain.fleet import Instance, MarketStatus, Order, Phase
from fleetagent.domain.records import Run
from fleetagent.errors import BadResource, Denied, FleetAgentError, LeaseLost, TryLater, Unclear
from fleetagent.ports.world import MayBegin, at_once
from support.ledger import an_intent, launched
from support.stores import NOON, Process, a_process


@dataclass
class ObedientMarket:
    """Answers a create or a destroy as a test says, at its own pace, and remembers what it was asked for."""

    answer: Callable[[], Awaitable[str]]
    asked: list[str | list[str]] = field(default_factory=list)
    together: Exception | None = None
    """What it answers when it is to end many at once; None: it does."""
    its_turn: asyncio.Event | None = None
    """Set when a call's turn has come; None: at once."""
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def _turn(self, may_begin: MayBegin) -> None:
        self.waits.set()
        if self.its_turn is not None:
            await self.its_turn.wait()
        await may_begin()

    async def launch(self, order: Order, may_begin: MayBegin = at_once) -> str:
        await self._turn(may_begin)
        self.asked.append(order.label)
        return await self.answer()

    async def destroy(self, provider_id: str, may_begin: MayBegin = at_once) -> None:
        await self._turn(may_begin)
        self.asked.append(provider_id)
        await self.answer()

    async def destroy_together(self, provider_ids: Sequence[str], may_begin: MayBegin = at_once) -> None:
        await self._turn(may_begin)
        self.asked.append(list(provider_ids))
        if self.together is not None:
            raise self.together


def saying(what: str | Exception) -> Any:
    async def answer() -> str:
        if isinstance(what, Exception):
            raise what
        return what

    return ObedientMarket(answer)


WANTED = Wanted(an_intent(), offer_id="7001", image="example/prover:1", disk_gb=250, onstart="", env={"A": "b"})


@dataclass
class Scene:
    """One run at a real ledger."""

    process: Process
    run: Run

    def effects(self, ledger: Any = None) -> Effects:
        return Effects(self.process.agents, ledger or self.process.ledger, lambda: NOON)

    async def launch(self, market: Any, ledger: Any = None) -> Effect:
        return await self.effects(ledger).launch(self.run, market, WANTED)

    async def action(self) -> dict[str, Any]:
        (row,) = await self.process.rows("SELECT * FROM actions ORDER BY id DESC LIMIT 1")
        return row

    async def phases(self) -> list[Phase]:
        return [i.phase for i in await self.process.ledger.instances(self.run.agent_id)]


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with a_process(database_url) as process:
        yield Scene(process, await process.start())


@pytest.mark.parametrize(
    ("answer", "happened", "state", "phases", "provider"),
    [
        ("9001", True, "done", [Phase.REQUESTED], "9001"),
        (Denied("OfferGone", "no_such_ask"), False, "failed", [], None),
        (TryLater("no connection"), False, "failed", [], None),
        (BadResource("FleetKnown", "MarketKeyRefused", "bad key"), False, "failed", [], None),
        (Unclear("504"), None, "unknown", [Phase.REQUESTED], None),
        (Unclear("an error with an id", provider_id="9001"), None, "unknown", [Phase.REQUESTED], "9001"),
    ],
    ids=["rented", "denied", "not sent", "refused", "unclear", "unclear with an id"],
)
async def test_a_launch_is_recorded_as_it_went(
    scene: Scene,
    answer: str | FleetAgentError,
    happened: bool | None,  # noqa: FBT001  # a column of the table
    state: str,
    phases: list[Phase],
    provider: str | None,
) -> None:
    market = saying(answer)

    effect = await scene.launch(market)

    assert effect.happened is happened
    action = await scene.action()
    assert (action["state"], action["provider_ref"]) == (state, provider)
    assert await scene.phases() == phases
    assert market.asked == [WANTED.intent.label]


async def test_the_intent_stands_before_the_market_hears_of_it(scene: Scene) -> None:
    seen: list[str] = []

    async def answer() -> str:
        seen.append((await scene.action())["state"])
        return "9001"

    await scene.launch(ObedientMarket(answer))

    assert seen == ["intended"]


async def test_nothing_is_asked_of_the_market_by_who_lost_the_lease_after_writing_the_intent(
    scene: Scene, database_url: str
) -> None:
    market = saying("9001")
    intend = scene.process.ledger.intend_launch

    class Interrupted:
        async def intend_launch(self, *args: Any) -> int:
            action = await intend(*args)
            await scene.process.agents.release(scene.run.lease)
            async with a_process(database_url, "two") as two:
                await two.lease()
            return action

    with pytest.raises(LeaseLost):
        await scene.launch(market, Interrupted())

    assert market.asked == []
    assert (await scene.action())["state"] == "intended"
    assert await scene.phases() == [Phase.REQUESTED]


async def test_a_create_that_waits_for_its_turn_is_called_off_with_its_run(scene: Scene) -> None:
    market = saying("9001")
    market.its_turn = asyncio.Event()
    launching = asyncio.create_task(scene.launch(market))
    await market.waits.wait()

    launching.cancel()
    await asyncio.sleep(0)
    market.its_turn.set()
    with pytest.raises(asyncio.CancelledError):
        await launching

    assert market.asked == []
    assert (await scene.action())["state"] == "failed"
    assert await scene.phases() == []


async def test_a_create_that_waits_for_its_turn_does_not_begin_once_the_lease_is_lost(
    scene: Scene, database_url: str
) -> None:
    market = saying("9001")
    market.its_turn = asyncio.Event()
    launching = asyncio.create_task(scene.launch(market))
    await market.waits.wait()

    await scene.process.agents.release(scene.run.lease)
    async with a_process(database_url, "two") as two:
        await two.lease()
    market.its_turn.set()
    with pytest.raises(LeaseLost):
        await launching

    assert market.asked == []
    assert (await scene.action())["state"] == "intended"


async def test_a_create_that_has_begun_is_recorded_although_the_run_is_cancelled(scene: Scene) -> None:
    begun, answered = asyncio.Event(), asyncio.Event()

    async def answer() -> str:
        begun.set()
        await answered.wait()
        return "9001"

    launching = asyncio.create_task(scene.launch(ObedientMarket(answer)))
    await begun.wait()
    launching.cancel()
    answered.set()
    with pytest.raises(asyncio.CancelledError):
        await launching

    action = await scene.action()
    assert (action["state"], action["provider_ref"]) == ("done", "9001")


async def test_a_database_that_is_away_at_the_wrong_moment_changes_nothing_of_what_happened(scene: Scene) -> None:
    class Away:
        intend_launch = staticmethod(scene.process.ledger.intend_launch)

        async def launched(self, *_: Any) -> None:
            raise TryLater("database: gone")

    effect = await scene.launch(saying("9001"), Away())

    assert (effect.happened, effect.instance_id) == (True, "9001")
    assert (await scene.action())["state"] == "intended"
    assert await scene.phases() == [Phase.REQUESTED]


@pytest.mark.parametrize(
    ("answer", "happened", "state"),
    [("", True, "done"), (TryLater("500"), None, "intended"), (Unclear("reset"), None, "intended")],
    ids=["taken", "not taken", "unclear"],
)
async def test_a_machine_is_stopping_from_the_intent_on_and_is_asked_for_until_the_market_took_it(
    scene: Scene,
    answer: str | FleetAgentError,
    happened: bool | None,  # noqa: FBT001  # a column of the table
    state: str,
) -> None:
    machine = replace(await launched(scene.process, scene.run), market_status=MarketStatus.RUNNING)
    effects, lease = scene.effects(), scene.run.lease

    effect = await effects.stop(lease, 1, saying(answer), machine, intent_key="s", by="model", reason="too dear")
    assert (effect.happened, (await scene.action())["state"]) == (happened, state)
    assert await scene.phases() == [Phase.STOPPING]

    assert (await effects.destroy(lease, saying(""), machine)).happened
    assert (await scene.action())["state"] == "done"
    (row,) = await scene.process.rows("SELECT destroy_asked_at, failure FROM instances")
    assert row == {"destroy_asked_at": NOON, "failure": None}


async def test_a_machine_that_no_list_has_shown_is_not_destroyed_yet(scene: Scene) -> None:
    """Its id is what a launch was answered with: it may be the id of somebody else's machine."""
    machine = await launched(scene.process, scene.run)
    market = saying("")

    stopped = await scene.effects().stop(
        scene.run.lease, 1, market, machine, intent_key="s", by="model", reason="too dear"
    )

    assert (stopped.happened, market.asked) == (None, [])
    assert await scene.phases() == [Phase.STOPPING]


async def machines_to_end(scene: Scene, count: int) -> list[Instance]:
    """So many machines that a list has shown."""
    made = [await launched(scene.process, scene.run, n) for n in range(1, count + 1)]
    return [replace(machine, market_status=MarketStatus.RUNNING) for machine in made]


async def asked_at(scene: Scene) -> list[Any]:
    rows = await scene.process.rows("SELECT destroy_asked_at FROM instances ORDER BY id")
    return [row["destroy_asked_at"] for row in rows]


async def test_many_machines_are_ended_in_one_call_after_their_intents(scene: Scene) -> None:
    machines = await machines_to_end(scene, 3)
    market = saying("")

    await scene.effects().stop_all(scene.run.lease, market, machines, key="k", by="deletion", reason="it is deleted")

    assert market.asked == [["9001", "9002", "9003"]]
    assert await scene.phases() == [Phase.STOPPING] * 3
    assert await asked_at(scene) == [NOON] * 3
    rows = await scene.process.rows("SELECT state FROM actions WHERE kind = 'stop'")
    assert [row["state"] for row in rows] == ["done"] * 3


@pytest.mark.parametrize("refusal", [TryLater("500"), Unclear("504"), Denied("NoSuchMachine", "no")])
async def test_what_is_not_ended_together_is_asked_for_one_by_one(scene: Scene, refusal: FleetAgentError) -> None:
    machines = await machines_to_end(scene, 3)
    market = saying("")
    market.together = refusal

    await scene.effects().destroy_all(scene.run.lease, market, machines)

    assert market.asked == [["9001", "9002", "9003"], "9001", "9002", "9003"]
    assert await asked_at(scene) == [NOON] * 3


async def test_what_was_asked_for_together_in_vain_is_asked_for_by_itself(scene: Scene) -> None:
    one, two, again = await machines_to_end(scene, 3)
    market = saying("")

    await scene.effects().destroy_all(scene.run.lease, market, [one, two, replace(again, destroy_asked_at=NOON)])

    assert market.asked == [["9001", "9002"], "9003"]


async def test_one_look_asks_for_a_few_machines_at_most_one_by_one(scene: Scene) -> None:
    machines = await machines_to_end(scene, 8)
    market = saying(TryLater("503"))
    market.together = TryLater("503")

    await scene.effects().destroy_all(scene.run.lease, market, machines)

    assert len(market.asked) == 1 + MOST_ONE_BY_ONE
    assert await asked_at(scene) == [None] * 8


async def test_nothing_is_ended_by_who_lost_the_lease(scene: Scene, database_url: str) -> None:
    machines = await machines_to_end(scene, 2)
    market = saying("")
    await scene.process.agents.release(scene.run.lease)
    async with a_process(database_url, "two") as two:
        await two.lease()

        with pytest.raises(LeaseLost):
            await scene.effects().destroy_all(scene.run.lease, market, machines)

    assert market.asked == []


async def test_machines_that_the_market_never_takes_do_not_keep_others_from_being_asked_for(scene: Scene) -> None:
    machines = await machines_to_end(scene, 8)
    market, effects = saying(TryLater("503")), scene.effects()
    market.together = TryLater("503")

    for _ in range(2):
        await effects.destroy_all(scene.run.lease, market, machines)

    assert {each for each in market.asked if isinstance(each, str)} == {m.provider_id for m in machines}
