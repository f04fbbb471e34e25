"""Patches of kopf's that are refused for minutes, as by a webhook or a role: what they held up is done afterwards."""

from collections.abc import Iterator

import pytest

from support.line import Line, a_line
from support.proxy import Seen
from support.stage import NAME, Stage
from support.steering import apply_idle

WATCHED_ANEW_WITHIN_S = 40.0


@pytest.fixture
def line(stage: Stage) -> Iterator[Line]:
    """An operator at the end of a line, with one idle agent."""
    with a_line(stage) as ready:
        ready.start_operator()
        apply_idle(stage)
        yield ready


def patches(seen: Seen) -> bool:
    """What kopf writes down at a resource, its finalizer included."""
    return seen.method == "PATCH" and seen.path.endswith(f"/fleetagents/{NAME}")


def test_a_deletion_that_could_not_be_written_down_for_a_while_comes_to_its_end(line: Line) -> None:
    stage = line.stage
    with line.proxy.refusing(403, patches):
        stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--wait=false")
        stage.wait_for(lambda: "Throttling for" in stage.log(), "kopf gives up")

    stage.wait_for(lambda: not stage.resource(), "it is gone", WATCHED_ANEW_WITHIN_S)
    assert line.alive()[0] == 200
