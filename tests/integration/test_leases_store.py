"""All leases of a process are renewed by one statement, and none of them waits for another's row."""

import asyncio

from fleetagent.domain.records import AgentKey, Lease, Renewed
from support.stores import NOON, Process


async def leases_of(process: Process, *names: str) -> list[Lease]:
    taken = [await process.agents.take(AgentKey("prod", n), n, floor=0, handled={}, now=NOON) for n in names]
    return [each.lease for each in taken if each is not None]


async def lives(process: Process) -> list[float]:
    rows = await process.rows("SELECT extract(epoch FROM lease_until - clock_timestamp()) AS s FROM agents ORDER BY id")
    return [float(row["s"]) for row in rows]


async def test_all_are_renewed_and_those_that_another_owns_by_now_are_lost(one: Process, two: Process) -> None:
    mine = await leases_of(one, "a", "b", "c", "d")
    await one.rows("UPDATE agents SET lease_until = clock_timestamp() + interval '20 s' RETURNING 1")
    await one.rows("UPDATE agents SET lease_until = clock_timestamp() WHERE name IN ('b', 'c') RETURNING 1")
    await leases_of(two, "b")

    renewed = await one.leases.renew([*mine, Lease(10**9, 1)])

    assert renewed.lost == {mine[1], mine[2], Lease(10**9, 1)}  # c has run out, although nobody took it
    assert renewed.later == frozenset()
    first, _, third, fourth = await lives(one)
    assert third < 0
    assert min(first, fourth) > 25


async def test_a_row_that_is_being_written_holds_up_no_other_lease_and_is_renewed_later(one: Process) -> None:
    slow, other = await leases_of(one, "slow", "other")
    await one.rows("UPDATE agents SET lease_until = clock_timestamp() + interval '20 s' RETURNING 1")
    async with one.database.owned(slow):
        renewed = await asyncio.wait_for(one.leases.renew({slow, other}), 20)

    assert renewed == Renewed(lost=frozenset(), later=frozenset({slow}))
    assert [life > 25 for life in await lives(one)] == [False, True]
    assert await one.leases.renew({slow, other}) == Renewed(frozenset(), frozenset())
    assert min(await lives(one)) > 25
