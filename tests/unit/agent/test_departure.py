"""A deletion goes on at its own pace although nobody calls for the next step, and never after its end."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetagent.agent.departure import Departure, looks_again_after_s

BODY = {"metadata": {"name": "porep", "uid": "uid-1"}}


@dataclass
class Steps:
    """A deletion whose steps end in this way, one after the other."""

    results: list[str | Exception | None]
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    empty: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, body: Mapping[str, Any]) -> str | None:
        self.bodies.append(body)
        result = self.results.pop(0)
        if not self.results:
            self.empty.set()
        if isinstance(result, Exception):
            raise result
        return result


def ended_by(steps: Steps, pace_s: float = 0) -> Departure:
    deletion: Any = steps
    return Departure(deletion, BODY, pace=lambda _: pace_s)


def test_it_looks_soon_for_a_minute_and_then_ever_more_seldom_up_to_a_limit() -> None:
    assert [looks_again_after_s(steps) for steps in (0, 19, 20, 60, 180, 11_105)] == [3, 3, 6, 12, 30, 30]


async def test_it_goes_on_by_itself_when_nobody_calls_and_whatever_a_step_ends_with() -> None:
    steps = Steps(["machines are being destroyed", RuntimeError("a bug"), "still", None])
    end = ended_by(steps)

    assert await end.step(BODY) == "machines are being destroyed"
    async with asyncio.timeout(5):
        await steps.empty.wait()

    assert await end.step(BODY) is None
    assert len(steps.bodies) == 4
    await end.stop()


async def test_a_step_that_is_called_for_sees_the_newest_resource() -> None:
    steps = Steps(["machines are being destroyed", None])
    end = ended_by(steps, pace_s=60)
    newer = {"metadata": {**BODY["metadata"], "annotations": {"fleetagent.dev/abandon": "yes"}}}

    await end.step(BODY)
    assert await end.step(newer) is None

    assert steps.bodies == [BODY, newer]
    await end.stop()


async def test_after_it_was_stopped_nothing_happens_any_more() -> None:
    steps = Steps(["never"])
    end = ended_by(steps)

    await end.stop()
    await asyncio.sleep(0)

    assert steps.bodies == []
