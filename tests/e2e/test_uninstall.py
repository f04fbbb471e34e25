"""`helm uninstall` first, the agent afterwards: what is kept, what goes on billing, and the way out."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetagent.dev.controlplane import ControlPlane
from support.released import a_release, install, uninstall
from support.servers import a_market, a_model
from support.stage import NAME, Stage


@pytest.fixture
def stage(control_plane: ControlPlane, database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """With a release of the chart."""
    with (
        a_market() as market,
        a_model() as model,
        a_release(control_plane, database_url, market, model, tmp_path) as ready,
    ):
        yield ready


def test_an_agent_that_is_deleted_after_the_uninstall_waits_and_the_same_release_sees_to_its_machines(
    stage: Stage,
) -> None:
    operator = stage.start_operator()
    stage.apply(spec={"target": {"proofsPerHour": 50}})
    stage.wait_for_target()
    uninstall(stage)  # Helm waits for no pod: the rights are gone while the operator still ends
    operator.send_signal(signal.SIGTERM)
    assert operator.wait(60) == 0  # well within the grace period

    stage.cluster.kubectl("--namespace", stage.namespace, "delete", "fleetagent", NAME, "--wait=false")

    assert stage.resource()["metadata"]["finalizers"]
    assert stage.market.live()  # they bill: the page on deleting says so
    install(stage)
    stage.start_operator()
    stage.wait_for(lambda: not stage.resource(), "the resource is gone")
    assert stage.market.live() == []
