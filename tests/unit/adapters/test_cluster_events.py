"""Events as the API server gets them: bounded in number, and what is left out is said."""

import asyncio
from typing import Any

from fleetagent.adapters.cluster import LEFT_OUT_TOLD_AFTER_SECONDS, KubernetesCluster
from fleetagent.domain.sparing import AT_ONCE
from support import virtual_time
from support.virtual_time import VirtualLoop

ABOUT = ("fleet", "porep", "uid-1")


class Core:
    """Takes Events and keeps them."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str, str]] = []

    async def create_namespaced_event(self, namespace: str, event: Any, **_: Any) -> None:
        assert (namespace, event.involved_object.name, event.involved_object.uid) == ABOUT
        self.taken.append((event.type, event.reason, event.message))


def test_of_a_hundred_events_at_once_forty_are_written_and_the_rest_is_told_as_a_number_later() -> None:
    core, anybody = Core(), Any

    async def story(_: VirtualLoop) -> None:
        cluster = KubernetesCluster(anybody, home="home", instance="one")  # type: ignore[arg-type]  # never asked
        cluster._core = core  # type: ignore[assignment]
        writing = asyncio.create_task(cluster.write_events())
        for number in range(100):
            await cluster.event(*ABOUT, kind="Normal", reason="ActionRefused", message=f"run {number}: refused")
        await cluster.event(*ABOUT, kind="Warning", reason="Alert", message="alert-1: come")
        await asyncio.sleep(1)
        at_once = list(core.taken)
        await asyncio.sleep(10 * LEFT_OUT_TOLD_AFTER_SECONDS)
        writing.cancel()

        assert [reason for _, reason, _ in at_once] == ["ActionRefused"] * AT_ONCE + ["Alert"]
        assert core.taken[len(at_once) :] == [
            (
                "Warning",
                "EventsLeftOut",
                f"{100 - AT_ONCE} Events were left out, there were too many at once: ActionRefused {100 - AT_ONCE}",
            )
        ]

    virtual_time.run(story)
