"""How a process learns that it is another one's turn."""

import asyncio

import kopf
import pytest

from fleetagent.entrypoints.handlers import Peering, set_up
from fleetagent.entrypoints.turns import Turns


class LetGo:
    """Counts how often everything was let go of; takes its time when told to."""

    def __init__(self) -> None:
        self.times = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> None:
        self.times += 1
        await self.may_end.wait()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def a_moment() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_it_is_not_our_turn_until_nothing_was_heard_of_a_pause_for_a_while() -> None:
    clock = Clock()
    turns = Turns(LetGo(), clock)
    assert not turns.active

    clock.now += 5.1
    assert turns.active

    assert list(turns.iter_all_daemon_memories()) == []  # as kopf asks when it pauses
    assert not turns.active
    clock.now += 4
    assert not turns.active


async def test_each_sign_of_a_pause_lets_go_of_what_was_taken_since_but_never_twice_at_the_same_time() -> None:
    let_go = LetGo()
    turns = Turns(let_go, Clock())
    let_go.may_end.clear()

    turns.iter_all_daemon_memories()
    await a_moment()
    turns.iter_all_daemon_memories()
    await a_moment()
    assert let_go.times == 1

    let_go.may_end.set()
    await a_moment()
    turns.iter_all_daemon_memories()
    await a_moment()
    assert let_go.times == 2


@pytest.mark.parametrize("peering", [None, Peering("fleetagent", 7, 15)], ids=["alone", "one of several"])
def test_a_process_takes_turns_when_it_is_told_to_and_never_by_itself(peering: Peering | None) -> None:
    given = kopf.OperatorSettings()

    set_up(given, namespaced=True, peering=peering, silent_seconds=600)

    assert given.peering.standalone == (peering is None)
    assert given.peering.mandatory == (peering is not None)
    if peering is not None:
        assert (given.peering.name, given.peering.priority, given.peering.lifetime) == ("fleetagent", 7, 15)
