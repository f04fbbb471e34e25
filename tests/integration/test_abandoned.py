"""Machines that were given up with their resource: whoever has its name next is free of them."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.deletion import Deletion
from fleetagent.agent.lease import Ownership
from fleetagent.agent.lifecycle import Look
from fleetagent.agent.report import Report
from fleetagent.agent.subject import Subject
from fleetagent.domain.fleet import Fleet
from support.fakes import FakeWorlds
from support.looks import PREFIX, Looks, looks_at
from support.manifests import Json, a_fleet_agent, a_manifest, a_spec
from support.servers import Market, a_market
from support.stores import KEY, a_process


@pytest.fixture
def market() -> Iterator[Market]:
    with a_market(time_scale=1.0, worker_url_env="NONE") as running:
        yield running


@pytest.fixture
async def agent(database_url: str, market: Market) -> AsyncIterator[Looks]:
    async with a_process(database_url) as process, looks_at(process, market) as looks:
        yield looks


def deletion_of(agent: Looks) -> Deletion:
    process = agent.process
    return Deletion(
        "test",
        agents=process.agents,
        runs=process.runs,
        ledger=process.ledger,
        worlds=FakeWorlds(AssertionError("no model is asked"), agent.client),
        cluster=agent.cluster,
        report=Report(agent.cluster, Metrics()),
        lifecycle=agent.lifecycle,
        effects=agent.effects,
        now=lambda: agent.now,
        ownership=Ownership(process.leases, timedelta(seconds=5)),
    )


def a_deleted(annotations: Json) -> Json:
    meta: Json = {"uid": "uid-1", "name": KEY.name, "namespace": KEY.namespace, "annotations": annotations}
    return a_manifest(metadata=meta, spec=a_spec())


async def looked_at_by_its_successor(agent: Looks) -> Look:
    """The resource is let go, made again under the same name, and looks at the market."""
    await agent.process.rows("UPDATE agents SET account_id = '999' RETURNING id")
    deletion = deletion_of(agent)
    keeps = await deletion(a_deleted({}))
    assert keeps is not None
    assert "put the old account's key back" in keeps
    assert await deletion(a_deleted({"fleetagent.dev/abandon": "yes"})) is None

    record = await agent.process.agent("uid-2")
    lease = await agent.process.agents.take_lease(record.id)
    assert lease is not None
    return await agent.lifecycle.look(Subject(a_fleet_agent(), record, PREFIX), lease, agent.client)


async def test_a_new_resource_of_the_name_may_have_another_account(agent: Looks) -> None:
    machine = await agent.a_known_machine()
    assert len(await agent.fleet()) == 1
    await agent.client.destroy(machine)  # the list of another account lacks it

    look = await looked_at_by_its_successor(agent)

    assert isinstance(look.fleet, Fleet)
    assert look.fleet.instances == ()
    assert (await agent.process.agent("uid-2")).account_id not in {None, "999"}


async def test_a_machine_that_is_listed_all_the_same_is_adopted_by_the_new_resource_of_the_name(agent: Looks) -> None:
    machine = await agent.a_known_machine()
    assert len(await agent.fleet()) == 1

    look = await looked_at_by_its_successor(agent)

    assert isinstance(look.fleet, Fleet)
    assert [i.provider_id for i in look.fleet.instances] == [machine]
    assert len(agent.events("MachineAdopted")) == 1
