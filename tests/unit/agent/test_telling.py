"""What things are about is known where they are said, and nowhere else."""

import asyncio

from fleetagent.agent.telling import telling, told


async def test_a_task_knows_what_it_was_begun_for_and_its_neighbours_do_not() -> None:
    heard: list[dict[str, str | int]] = []

    async def listen() -> None:
        await asyncio.sleep(0)
        heard.append(dict(told()))

    with telling(agent="fleet/porep"):
        with telling(run=7, trigger="Wake"):
            inner = asyncio.create_task(listen())
        outer = asyncio.create_task(listen())
    stranger = asyncio.create_task(listen())
    await asyncio.gather(inner, outer, stranger)

    assert heard == [{"agent": "fleet/porep", "run": 7, "trigger": "Wake"}, {"agent": "fleet/porep"}, {}]


def test_what_is_not_known_is_not_told() -> None:
    with telling(run=7), telling(run=None):
        assert told() == {"run": 7}
