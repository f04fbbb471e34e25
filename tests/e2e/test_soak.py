"""A short soak; `make soak` is the long one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetagent.dev.controlplane import ControlPlane
from support.soak.plan import Plan
from support.soak.story import soak
from support.stage import Stage, a_stage


@pytest.fixture
def roomy(control_plane: ControlPlane, namespace: str, database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage whose market has enough for many agents, for as long as it takes."""
    with a_stage(control_plane, namespace, database_url, tmp_path, offers=150, credit_usd=1e9) as ready:
        yield ready


@pytest.mark.timeout(600)
def test_no_run_is_lost_late_or_doubled_while_two_replicas_are_killed_ended_and_frozen(roomy: Stage) -> None:
    done = soak(roomy, Plan(agents=20, restless=4, rounds=12, blows=3), say=print)

    print(json.dumps(done.found.figures(), indent=1, default=str))  # noqa: T201  # shown when it fails
    assert done.broken() == []
    roomy.check_books()
