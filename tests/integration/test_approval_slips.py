"""What goes wrong for a moment beside an approval: it is neither lost without a word nor heard twice."""

from collections.abc import AsyncIterator, Mapping

import pytest

from fleetagent.errors import TryLater
from support.asked import World, a_world
from support.asking import LOOK, launch
from support.engine import StoredCluster


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with a_world(database_url, spec={"mode": "Approve", "approvalExpiry": "15m"}) as ready:
        yield ready


async def a_wish(world: World) -> str:
    assert await world.ask([LOOK], [launch(world.shown[0])]) == ["waiting"]
    return f"action-{world.own('actions')[-1]['id']}"


def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> Mapping[str, str]:
        raise TryLater("Secret prod/prover-env: the API server does not answer")

    monkeypatch.setattr(StoredCluster, "secret_map", away)


async def test_an_api_server_that_is_away_costs_an_approval_no_more_than_a_refusal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await a_wish(world)
    world.engine.change(fleet={"vast": {"instance": {"envFromSecretRef": {"name": "prover-env"}}}})
    await world.engine.beat()
    no_secrets(monkeypatch)

    world.engine.annotate(approve=name)
    await world.engine.beat()

    assert [r["state"] for r in world.own("runs", "run_id")].count("interrupted") == 0
    assert world.own("actions")[-1]["refusal"]["code"] == "NotPossibleNow"
    assert world.calls("create") == (0,)
    world.check_books()


async def test_who_approves_what_does_not_wait_is_told_once_however_long_a_run_takes(world: World) -> None:
    world.model.put("hold")
    world.engine.annotate(requested_at="think")
    await world.engine.passed()
    world.engine.annotate(approve="action-999")

    for _ in range(5):
        await world.engine.passed()
    assert world.engine.keeper._run is not None, "the model thinks"
    world.model.delete("hold")
    await world.engine.beat()

    assert world.engine.cluster.said("NothingWaiting") == ["fleetagent.dev/approve: action-999: unknown"]
    assert world.engine.cluster.status["lastHandledApprove"] == "action-999"


async def test_a_memory_that_fails_for_a_moment_in_each_run_does_not_use_up_the_word_of_a_person_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await a_wish(world)
    ledger = world.engine.built.triggers._keeping.ledger

    async def away(*_: object) -> None:
        raise TryLater("database: the connection was lost")

    monkeypatch.setattr(type(ledger), "intend_launch", away)
    monkeypatch.setattr(type(ledger), "refuse_approved", away)
    world.engine.clock.stand_still()
    world.engine.annotate(approve=name)
    for _ in range(10):
        await world.engine.beat()
    monkeypatch.undo()

    await world.engine.beat(seconds=6)

    assert world.calls("create") == (1,)
    assert world.open_alerts() == []
    world.check_books()


async def test_what_was_approved_and_failed_is_not_called_done(world: World) -> None:
    name = await a_wish(world)
    world.rows("UPDATE actions SET state = 'failed' RETURNING id")

    world.engine.annotate(approve=name)
    await world.engine.beat()

    said = f"fleetagent.dev/approve: {name}: already tried, and failed"
    assert world.engine.cluster.said("NothingWaiting") == [said]
