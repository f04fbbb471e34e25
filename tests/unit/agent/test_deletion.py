"""A resource can always be let go, even when nothing that its deletion needs is there any more."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.deletion import Deletion
from fleetagent.agent.lease import Ownership
from fleetagent.agent.report import Report
from fleetagent.domain.fleet import Instance
from fleetagent.domain.records import Lease
from fleetagent.domain.resource import FleetAgent
from fleetagent.errors import BadResource, FleetAgentError, LeaseLost, TryLater
from support.fakes import FakeWorlds
from support.fleets import NOW, an_instance
from support.manifests import Json, a_manifest, a_spec

ABANDON = {"fleetagent.dev/abandon": "yes"}


@dataclass
class SilentMemory:
    """A database that cannot be reached, or an agent that another process keeps."""

    error: FleetAgentError

    async def meet(self, *_: Any, **__: Any) -> None:
        raise self.error


@dataclass
class Ears:
    """The Kubernetes API as far as it hears Events."""

    heard: list[tuple[str, str]] = field(default_factory=list)
    shown: list[Json] = field(default_factory=list)

    async def patch_status(self, _namespace: str, _name: str, status: Json) -> Json:
        self.shown.append(status)
        return status

    async def event(self, *_: str, reason: str, message: str, **__: str) -> None:
        self.heard.append((reason, message))


@dataclass
class Scene:
    """A deletion that gets no further than its memory; `now` moves when the test moves it."""

    error: FleetAgentError
    now: datetime = NOW
    ears: Ears = field(default_factory=Ears)
    worlds: FakeWorlds = field(default_factory=lambda: FakeWorlds(TryLater("never asked")))

    def deletion(self) -> Deletion:
        nothing: Any = None
        memory: Any = SilentMemory(self.error)
        ears: Any = self.ears
        return Deletion(
            "test",
            agents=memory,
            runs=nothing,
            ledger=nothing,
            worlds=self.worlds,
            cluster=ears,
            report=Report(ears, Metrics()),
            lifecycle=nothing,
            effects=nothing,
            now=lambda: self.now,
            ownership=Ownership(nothing, timedelta(seconds=5)),
        )


def a_deleted(annotations: dict[str, str] | None = None, spec: Json | None = None) -> Json:
    """A resource that is being deleted."""
    meta = {"uid": "uid-1", "deletionTimestamp": "2026-11-29T12:00:00Z", "annotations": annotations or {}}
    return a_manifest(metadata=meta, spec=a_spec() if spec is None else spec)


@pytest.mark.parametrize("error", [TryLater("database: no route to host"), LeaseLost("another process owns it")])
async def test_what_keeps_the_resource_is_said_with_the_way_out(error: FleetAgentError) -> None:
    scene = Scene(error)

    keeps = await scene.deletion()(a_deleted())

    assert keeps is not None
    assert str(error) in keeps
    assert "fleetagent.dev/abandon=yes" in keeps
    assert scene.ears.heard == [("DeletionWaits", keeps)]


async def test_a_resource_that_is_given_up_goes_although_its_memory_is_away() -> None:
    scene = Scene(TryLater("database: no route to host"))

    assert await scene.deletion()(a_deleted(ABANDON)) is None

    assert [reason for reason, _ in scene.ears.heard] == ["MachinesAbandoned"]


async def test_the_secrets_of_a_resource_are_forgotten_with_it_and_not_before() -> None:
    scene = Scene(TryLater("database: no route to host"))

    await scene.deletion()(a_deleted())
    assert scene.worlds.forgotten == []

    await scene.deletion()(a_deleted(ABANDON))
    assert scene.worlds.forgotten == ["uid-1"]


async def test_a_spec_that_cannot_be_read_keeps_the_resource_and_has_the_same_way_out() -> None:
    scene = Scene(TryLater("never asked"))
    deletion = scene.deletion()

    keeps = await deletion(a_deleted(spec={"target": "none"}))

    assert keeps is not None
    assert "spec.target" in keeps
    assert await deletion(a_deleted(ABANDON, spec={"target": "none"})) is None


async def test_it_is_said_again_while_it_lasts_but_not_at_every_step() -> None:
    scene = Scene(TryLater("database: no route to host"))
    deletion = scene.deletion()

    for second in range(0, 60, 3):
        scene.now = NOW + timedelta(seconds=second)
        await deletion(a_deleted())

    assert [reason for reason, _ in scene.ears.heard] == ["DeletionWaits"] * 3


async def test_it_is_said_in_the_status_too_once_for_each_new_sentence() -> None:
    scene = Scene(TryLater("database: no route to host"))
    deletion = scene.deletion()

    body = a_deleted()
    for _ in range(3):
        await deletion(body)
        body = {**body, "status": scene.ears.shown[-1]}
    scene.error = TryLater("database: connection refused")
    deletion._agents = SilentMemory(scene.error)  # type: ignore[assignment]
    await deletion(body)

    said = [{c["type"]: c for c in status["conditions"]}["Ready"] for status in scene.ears.shown]
    assert [(c["status"], c["reason"]) for c in said] == [("False", "DeletionWaits")] * 2
    assert "no route to host" in said[0]["message"]
    assert "connection refused" in said[1]["message"]
    assert "fleetagent.dev/abandon=yes" in said[1]["message"]


class EmptyLedger:
    """A ledger that knows of no machine, perhaps because it was lost."""

    async def instances(self, _: int) -> tuple[()]:
        return ()


@pytest.mark.parametrize(
    ("reported", "said"),
    [(0, ["MarketNotRead"]), (2, [])],
    ids=["nobody knows of a machine", "the status knows of two"],
)
async def test_a_market_that_says_nothing_ends_a_deletion_only_if_nobody_knows_of_a_machine(
    reported: int, said: list[str]
) -> None:
    scene = Scene(TryLater("never asked"))
    deletion = scene.deletion()
    deletion._ledger = EmptyLedger()  # type: ignore[assignment]
    body = a_deleted() | {"status": {"fleet": {"instances": reported}}}
    agent = FleetAgent.stored(body)
    subject: Any = SimpleNamespace(agent=agent, spec=agent.spec, record=SimpleNamespace(id=1))

    async def refused(_: Any) -> None:
        raise BadResource("FleetKnown", "SecretMissing", "Secret fleet/vast does not exist: create it")

    scene.worlds.market = refused  # type: ignore[assignment, method-assign]

    keeps = await deletion._end(subject, Lease(1, 1))

    assert (keeps is None) is (reported == 0)
    assert [reason for reason, _ in scene.ears.heard] == said


@dataclass
class Row:
    """The memory of one agent of which a machine is known, if it has not been let go yet."""

    deleted: bool
    owned_by_another: bool = False
    id: int = 1
    forgotten: int = 0

    async def meet(self, *_: Any, **__: Any) -> "Row":
        return self

    async def take_lease(self, _: int) -> Lease | None:
        return None if self.owned_by_another else Lease(1, 1)

    async def forget(self, _: Lease, __: str) -> None:
        self.forgotten += 1

    async def release(self, _: Lease) -> None:
        pass

    async def instances(self, _: int) -> tuple[Instance, ...]:
        return (an_instance(provider_id="50300393"),)


@pytest.mark.parametrize(
    ("row", "said", "forgotten"),
    [(Row(deleted=False), 1, 1), (Row(deleted=True), 0, 0), (Row(deleted=False, owned_by_another=True), 0, 0)],
    ids=["its finalizer was taken off", "it went as it should", "another process sees to it"],
)
async def test_a_resource_that_vanishes_names_what_it_leaves_behind_unless_its_end_is_known(
    row: Row, said: int, forgotten: int
) -> None:
    scene = Scene(TryLater("never asked"))
    deletion = scene.deletion()
    deletion._agents = deletion._ledger = row  # type: ignore[assignment]

    await deletion.gone(a_deleted())

    assert [reason for reason, _ in scene.ears.heard] == ["MachinesAbandoned"] * said
    assert all("50300393" in words for _, words in scene.ears.heard)
    assert row.forgotten == forgotten


async def test_a_resource_that_vanishes_while_its_memory_is_away_is_no_error() -> None:
    scene = Scene(TryLater("database: no route to host"))

    await scene.deletion().gone(a_deleted())

    assert scene.ears.heard == []
