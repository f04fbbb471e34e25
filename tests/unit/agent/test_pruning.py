"""Pruning gives way: it ends when there is something better to do, and does not do too much at once."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.keeper import Keeper
from fleetagent.agent.pruning import MOST_BATCHES, Pruning
from fleetagent.domain.records import AgentKey, Lease
from fleetagent.domain.resource import Retention
from fleetagent.domain.retention import Batch, Past, Place, Pruned, TableSize
from support.fleets import NOW

KEY, LEASE = AgentKey("default", "porep"), Lease(1, 1)
RETENTION = Retention.model_validate({"runs": "90d", "messages": "30d"})


@dataclass
class Shelf:
    """An audit with so many full batches of each table."""

    batches: dict[Past, int] = field(default_factory=dict)
    asked: list[tuple[Past, datetime, Place]] = field(default_factory=list)

    async def prune(self, lease: Lease, what: Past, before: datetime, place: Place) -> Batch:
        assert lease == LEASE
        self.asked.append((what, before, place))
        done = place[0] if place else 0
        full = done < self.batches.get(what, 0)
        return Batch(1_000 if full else 7, (done + 1,) if full else None)

    async def sizes(self) -> Mapping[str, TableSize]:
        return {"messages": TableSize(81_920, 27_400_000), "runs": TableSize(20_480, 6_000_000)}


async def pruned(shelf: Shelf, busy: Callable[[], bool] = lambda: False) -> Pruned:
    done = await Pruning(shelf, lambda: NOW)(KEY, LEASE, RETENTION, busy=busy)
    assert done is not None
    return done


async def test_every_table_is_pruned_to_its_own_age_and_whoever_is_referred_to_comes_last() -> None:
    shelf = Shelf()

    done = await pruned(shelf)

    assert done.complete
    assert {what: NOW - before for what, before, _ in shelf.asked} == {
        what: timedelta(days=30 if what in {Past.MESSAGES, Past.COMPACTIONS} else 90) for what in Past
    }
    order = [what for what, _, _ in shelf.asked]
    assert order.index(Past.INSTANCES) < order.index(Past.RUNS) < order.index(Past.ACTIONS) < order.index(Past.SESSIONS)


async def test_a_table_is_gone_through_until_nothing_old_is_left() -> None:
    shelf = Shelf({Past.MESSAGES: 2})

    done = await pruned(shelf)

    assert [place for what, _, place in shelf.asked if what is Past.MESSAGES] == [(), (1,), (2,)]
    assert done.deleted[Past.MESSAGES] == 2_007


async def test_it_ends_before_the_next_batch_when_there_is_something_better_to_do() -> None:
    shelf = Shelf({Past.MESSAGES: 100})

    done = await pruned(shelf, busy=lambda: len(shelf.asked) == 3)

    assert not done.complete
    assert len(shelf.asked) == 3


async def test_a_long_past_is_not_pruned_at_once() -> None:
    shelf = Shelf({Past.MESSAGES: 1_000})

    done = await pruned(shelf)

    assert not done.complete
    assert done.deleted == {Past.MESSAGES: MOST_BATCHES * 1_000}


async def test_the_log_tells_what_went_and_what_there_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    await pruned(Shelf({Past.MESSAGES: 1_000}))

    gone = "pruned 40,000 messages; more is left for the next time"
    there = "about 102,400 rows in 33.4 MB (messages 81,920 rows 27.4 MB, runs 20,480 rows 6.0 MB)"
    assert caplog.messages == [f"default/porep: {gone}; the tables hold {there}"]


def test_a_pass_that_found_nothing_old_says_so() -> None:
    assert Pruned({Past.RUNS: 0}, {}, complete=True).words.startswith("pruned nothing; the tables hold about 0 rows")


@dataclass
class Hours:
    """A pruning on a clock that the test sets."""

    shelf: Shelf = field(default_factory=Shelf)
    now: datetime = NOW

    def __post_init__(self) -> None:
        self.prune = Pruning(self.shelf, lambda: self.now)

    async def at(self, minutes: int, key: AgentKey = KEY, *, busy: bool = False) -> bool:
        """Whether there was a pass."""
        self.now = NOW + timedelta(minutes=minutes)
        return await self.prune(key, LEASE, RETENTION, busy=lambda: busy) is not None


async def test_each_agent_is_pruned_at_most_once_an_hour() -> None:
    hours = Hours()

    assert [await hours.at(minutes) for minutes in (0, 59, 60, 61)] == [True, False, True, False]
    assert await hours.at(62, AgentKey("default", "other"))


async def test_a_pass_that_gave_way_is_made_up_for_at_the_next_look() -> None:
    hours = Hours()

    assert await hours.at(0, busy=True)
    assert await hours.at(1)
    assert not await hours.at(2)


async def test_a_pass_that_was_long_enough_is_not_made_up_for() -> None:
    hours = Hours(Shelf({Past.MESSAGES: 1_000}))

    assert [await hours.at(0), await hours.at(1)] == [True, False]


async def test_a_keeper_is_busy_when_it_was_nudged_or_something_is_due() -> None:
    keeper = Keeper(KEY, SimpleNamespace(now=lambda: NOW, meter=Metrics()))  # type: ignore[arg-type]

    assert not keeper._busy(None)
    assert not keeper._busy(NOW + timedelta(seconds=1))
    assert keeper._busy(NOW)
    keeper._nudged.set()
    assert keeper._busy(None)
