"""Wakes that a model asks for by the hundred: bounded in number, and each minute is one run at most."""

from datetime import timedelta
from itertools import pairwise

from fleetagent.domain.resource import WakeLimits
from fleetagent.domain.schedule import wake_at
from support.stores import NOON, Process

LIMITS = WakeLimits.read({"min": "1m", "max": "24h", "limit": 20})


async def test_of_five_hundred_wishes_twenty_are_kept_a_minute_or_more_apart(one: Process) -> None:
    agent = await one.agent()
    run = await one.start()

    asked = [
        await one.runs.ask_wake(run, wake_at(1 + number / 10, NOON, LIMITS), f"look {number}", limit=LIMITS.limit)
        for number in range(500)
    ]

    _, pending = await one.runs.waiting(agent.id)
    assert len(pending) == sum(wake is not None for wake in asked) == LIMITS.limit
    moments = sorted({wake.at for wake in pending})
    assert len(moments) == 2
    assert all(after - before >= timedelta(minutes=1) for before, after in pairwise(moments))


async def test_the_same_wish_is_one_wake_however_often_it_is_made(one: Process) -> None:
    agent = await one.agent()
    run = await one.start()

    ids = {
        wake.id
        for seconds in range(50)
        if (wake := await one.runs.ask_wake(run, NOON + timedelta(hours=1, seconds=seconds), "look", limit=20))
    }

    _, pending = await one.runs.waiting(agent.id)
    assert ids == {wake.id for wake in pending}
    assert len(ids) == 1


async def test_wishes_for_the_same_minute_come_due_together_and_each_is_told(one: Process) -> None:
    agent = await one.agent()
    run = await one.start()
    for seconds, reason in ((600, "prices"), (630, "machine 7"), (700, "demand")):
        await one.runs.ask_wake(run, NOON + timedelta(seconds=seconds), reason, limit=20)

    _, pending = await one.runs.waiting(agent.id)

    assert [(w.reason, (w.at - NOON).total_seconds()) for w in pending] == [
        ("prices", 600),
        ("machine 7", 600),
        ("demand", 700),
    ]
