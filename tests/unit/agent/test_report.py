"""The status is written when something in it changed, and only then; what an old definition drops is said."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.report import Known, Report
from fleetagent.agent.subject import Subject
from fleetagent.agent.written import Written
from fleetagent.domain.account import Runway
from fleetagent.domain.demand import Demand
from fleetagent.domain.resource import pruned
from fleetagent.domain.status import Finding
from fleetagent.errors import TryLater
from support.fakes import QuietCluster
from support.fleets import NOW, an_instance, an_observation
from support.manifests import Json, a_fleet_agent, a_manifest, merged
from support.memory import Memory


@dataclass
class OldCluster(QuietCluster):
    """Keeps what its definition names of a status; a watch shows it when the test says so."""

    drops: tuple[str, ...] = ()
    stored: Json = field(default_factory=dict)
    shown: Json = field(default_factory=dict)
    writes: int = 0
    is_down: bool = False
    is_gone: bool = False

    async def patch_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        del namespace, name
        if self.is_down:
            raise TryLater("the API server does not answer")
        if self.is_gone:
            return None
        self.writes += 1
        kept = {k: v for k, v in merged(self.stored, status).items() if k not in self.drops and v is not None}
        self.stored = kept
        return kept

    def show(self) -> None:
        """The watch has caught up."""
        self.shown = self.stored

    def reason(self, condition: str) -> str:
        """Why the stored condition is as it is."""
        return str(next(c["reason"] for c in self.stored["conditions"] if c["type"] == condition))


class Desk:
    """The reports on one agent."""

    def __init__(self, **cluster: Any) -> None:
        self.cluster = OldCluster(**cluster)
        self.metrics = Metrics()
        self.report = Report(self.cluster, self.metrics)
        self.known = Known(seen=an_observation(an_instance()))
        self.looks = 0

    async def look(self, **changes: Any) -> int:
        """Eight seconds later a look at the same world, but for these changes; how many writes it made."""
        self.looks += 1
        now, before = NOW + timedelta(seconds=8 * self.looks), self.cluster.writes
        agent = a_fleet_agent(status=self.cluster.shown)
        self.known.seen = replace(an_observation(an_instance(), at=now), **changes)
        subject = Subject(agent, Memory().record(), "fa/test/")
        await self.report(subject, self.known, last=None, wakes=(), next_run_at=None, now=now)
        return self.cluster.writes - before

    async def complain(self) -> bool:
        """Its memory does not answer; whether that was new."""
        body = merged(a_manifest(metadata={"uid": "u", "generation": 1}), {"status": self.cluster.shown})
        return await self.report.complain(body, self.known, Finding("Ready", "False", "MemoryUnavailable", "no"), NOW)


async def test_a_world_that_stands_still_is_written_once_however_late_the_watch_is() -> None:
    desk = Desk()

    assert [await desk.look() for _ in range(3)] == [1, 0, 0]
    desk.cluster.show()
    assert [await desk.look() for _ in range(3)] == [0, 0, 0]


async def test_a_status_that_was_wiped_before_the_watch_showed_it_is_not_taken_for_a_late_watch_for_ever() -> None:
    desk = Desk()
    assert await desk.look() == 1

    desk.cluster.stored = desk.cluster.shown = {}
    within = [await desk.look() for _ in range(5)]

    assert sum(within) == 1


@pytest.mark.parametrize("spoilt", [{}, {"observedGeneration": -1}, {"nextRunAt": "2027-01-01T00:00:00Z"}], ids=str)
async def test_a_status_that_somebody_wiped_or_changed_is_written_again_by_the_next_look(spoilt: Json) -> None:
    desk = Desk()
    await desk.look()
    desk.cluster.show()
    await desk.look()
    good = desk.cluster.stored

    desk.cluster.stored = desk.cluster.shown = {**good, **spoilt} if "nextRunAt" in spoilt else spoilt

    assert await desk.look() == 1
    assert desk.cluster.stored["conditions"] == good["conditions"]
    assert desk.cluster.stored.get("nextRunAt") == good.get("nextRunAt")


async def test_an_older_definition_is_noticed_said_once_and_causes_no_endless_writing() -> None:
    desk = Desk(drops=("fleet", "spend"))

    first = await desk.look()
    desk.cluster.show()
    later = [await desk.look() for _ in range(3)]

    assert (first, later) == (2, [0, 0, 0])
    assert desk.cluster.reason("SchemaCurrent") == "CRDOutdated"
    (said,) = [message for reason, message in desk.cluster.events if reason == "CRDOutdated"]
    assert "it drops status.fleet" in said
    assert "helm upgrade" in said
    assert b"fleetagent_status_fields_dropped 1.0" in desk.metrics.text()


async def test_agents_that_report_other_fields_do_not_contradict_each_other(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(drops=("fleet",))
    await desk.look()
    without = Known()
    agent = a_fleet_agent()
    for _ in range(3):
        subject = Subject(agent, Memory().record(), "fa/test/")
        await desk.report(subject, without, last=None, wakes=(), next_run_at=None, now=NOW)
        without.written = Written()

    assert b"fleetagent_status_fields_dropped 1.0" in desk.metrics.text()
    assert caplog.text.count("CustomResourceDefinition drops") == 1


async def test_a_definition_that_is_brought_up_to_date_is_noticed_with_the_next_report() -> None:
    desk = Desk(drops=("fleet",))
    await desk.look()
    desk.cluster.show()
    await desk.look()
    desk.cluster.drops = ()
    desk.cluster.stored = desk.cluster.shown = {}

    assert await desk.look() == 2
    assert desk.cluster.reason("SchemaCurrent") == "NothingDropped"
    assert b"fleetagent_status_fields_dropped 0.0" in desk.metrics.text()


async def test_a_new_process_repeats_what_is_known_of_the_definition_until_it_has_written_itself() -> None:
    first = Desk(drops=("fleet",))
    await first.look()
    second = Desk(drops=("fleet",), stored=first.cluster.stored, shown=first.cluster.stored)
    await second.look()
    third = Desk(stored=first.cluster.stored, shown=first.cluster.stored)
    await third.look()

    assert second.cluster.reason("SchemaCurrent") == "CRDOutdated"
    assert [reason for reason, _ in second.cluster.events if reason in {"CRDOutdated", "NothingDropped"}] == []
    assert third.cluster.reason("SchemaCurrent") == "NothingDropped"
    assert [reason for reason, _ in third.cluster.events if reason in {"CRDOutdated", "NothingDropped"}] == [
        "NothingDropped"
    ]


async def test_a_report_that_could_not_be_written_is_written_by_the_next_look() -> None:
    desk = Desk(is_down=True)
    await desk.look()
    desk.cluster.is_down = False

    assert [await desk.look(), await desk.look()] == [1, 0]


async def test_a_complaint_is_written_once_and_again_when_somebody_wiped_it() -> None:
    desk = Desk()
    await desk.look()
    desk.cluster.show()

    assert [await desk.complain(), await desk.complain()] == [True, False]
    desk.cluster.show()
    assert not await desk.complain()
    desk.cluster.stored = desk.cluster.shown = {}
    assert await desk.complain()
    assert await desk.look() == 1
    assert desk.cluster.reason("Ready") != "MemoryUnavailable"


@pytest.mark.parametrize(
    ("written", "came_back", "missing"),
    [
        ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2}}, ()),
        ({"a": None, "b": {"c": None}}, {"b": {}}, ()),
        ({"a": 0, "b": {"c": False, "d": 1}}, {"b": {"d": 1}}, ("status.a", "status.b.c")),
        ({"l": [{"a": 1, "b": 2}, {"a": 1, "b": 2}]}, {"l": [{"a": 1}, {"a": 1}]}, ("status.l[].b",)),
        ({"a": {"b": 1}}, {}, ("status.a",)),
        ({"a": 1}, {"a": 2, "z": 3}, ()),
    ],
    ids=["all of it", "what was taken away", "values that are false", "in lists, once", "a whole part", "other values"],
)
def test_what_did_not_come_back_is_named(written: Json, came_back: Json, missing: tuple[str, ...]) -> None:
    assert pruned(written, came_back) == missing


async def test_a_resource_that_went_without_a_word_is_missed_until_it_is_there_again() -> None:
    desk = Desk()
    meta = a_fleet_agent().metadata
    await desk.look()
    assert not desk.known.gone

    desk.cluster.is_gone = True
    await desk.complain()
    assert desk.known.gone
    assert not await desk.report.finds(meta, desk.known)

    desk.cluster.is_gone = False
    assert await desk.report.finds(meta, desk.known)
    assert not desk.known.gone


async def test_a_bill_a_credit_and_a_queue_that_move_with_every_look_are_no_change_by_themselves() -> None:
    desk = Desk()
    wrote = []
    for step in range(8):
        bill, credit = Decimal("3.00") + Decimal(step) / 50, Runway(Decimal(100 - step), Decimal("2.70"))
        wrote.append(await desk.look(usd_spent_today=bill, runway=credit, demand=Demand(active=True, queued=step)))
        desk.cluster.show()
    assert wrote == [1, 0, 0, 0, 0, 0, 0, 0]

    assert await desk.look(usd_spent_today=Decimal(5), demand=Demand(active=False, queued=0)) == 1
    said = {c["type"]: c["message"] for c in desk.cluster.stored["conditions"]}
    assert "5.00 USD today" in said["WithinBudget"]


async def test_a_new_process_takes_over_what_it_would_have_written_with_its_sparing_of_the_bill() -> None:
    desk = Desk()
    await desk.look(usd_spent_today=Decimal("3.00"))
    desk.cluster.show()
    desk.known = Known()

    assert await desk.look(usd_spent_today=Decimal("3.00")) == 0
    assert await desk.look(usd_spent_today=Decimal("3.01")) == 0
