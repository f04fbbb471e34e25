"""A resource that is deleted and made again under the same name, and processes that lag behind."""

from datetime import timedelta

import pytest

from fleetagent.adapters.postgres.agents import PostgresAgents
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import LeaseLost
from support.stores import KEY, NOON, Process


async def test_a_look_that_lags_changes_nothing_of_the_one_that_came_after(one: Process) -> None:
    await one.agent(uid="uid-1")
    again = await one.agent(uid="uid-2")
    await one.runs.persist(again.id, Trigger.REQUEST, "now")

    with pytest.raises(LeaseLost, match="replaced"):
        await one.agent(uid="uid-1")

    after = await one.agent(uid="uid-2")
    assert after.session.id == again.session.id
    assert [p.value for p in (await one.runs.waiting(again.id))[0]] == ["now"]


async def test_the_end_of_the_one_before_does_not_end_the_one_that_came_after(one: Process) -> None:
    lease = await one.lease()
    await one.agent(uid="uid-2")

    with pytest.raises(LeaseLost):
        await one.agents.forget(lease, "uid-1")
    own = await one.agents.take_lease(lease.agent_id)
    assert own is not None
    await one.agents.forget(own, "uid-1")

    assert not (await one.agent(uid="uid-2")).deleted


async def test_who_works_for_the_one_before_loses_its_lease(one: Process) -> None:
    run = await one.start(now=NOON)

    await one.agent(uid="uid-2")

    with pytest.raises(LeaseLost):
        await one.agents.check(run.lease)


async def test_a_cluster_that_was_restored_to_what_it_was_is_believed_after_a_while(one: Process) -> None:
    await one.agent(uid="uid-1")
    again = await one.agent(uid="uid-2")
    later = PostgresAgents(
        one.database, cluster="test", owner="one", lease=timedelta(seconds=5), watch_lag=timedelta(0)
    )

    restored = await later.meet(KEY, "uid-1", floor=0, handled={})

    assert (restored.uid, restored.id, restored.deleted) == ("uid-1", again.id, False)
    assert restored.session.id != again.session.id


async def test_a_deleted_resource_that_a_restored_cluster_has_again_is_kept_again_after_a_while(one: Process) -> None:
    lease = await one.lease()
    before = await one.agent(uid="uid-1")
    await one.agents.forget(lease, "uid-1")
    assert (await one.agent(uid="uid-1")).deleted  # a watch that lags may still show it
    with pytest.raises(LeaseLost):
        await one.agents.take(KEY, "uid-1", floor=0, handled={}, now=NOON)

    later = PostgresAgents(
        one.database, cluster="test", owner="one", lease=timedelta(seconds=5), watch_lag=timedelta(0)
    )
    taken = await later.take(KEY, "uid-1", floor=0, handled={}, now=NOON)

    assert taken is not None
    assert (taken.record.id, taken.record.deleted) == (before.id, False)
    assert taken.record.session.id != before.session.id
