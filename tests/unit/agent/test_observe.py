"""What the facts say of the whole installation's stop."""

from datetime import datetime, timedelta
from typing import Any

from fleetagent.agent.observe import STOP_LIFE, Observe
from fleetagent.agent.subject import Subject
from fleetagent.domain.observation import LaunchProblem
from fleetagent.domain.status import Health, findings
from support.fakes import FakeWorlds, QuietCluster, StrictModel
from support.fleets import NOW, an_observation
from support.manifests import a_fleet_agent
from support.memory import Memory

STOP = "ConfigMap fleetagent/fleetagent-stop exists: maintenance"


class Stoppable(QuietCluster):
    """A cluster whose installation can be stopped; it counts how often it is asked."""

    stop: str | None = None
    asked = 0

    async def installation_stop(self) -> str | None:
        self.asked += 1
        return self.stop


class Scene:
    """What is observed of one agent, at a moment that the test moves."""

    def __init__(self) -> None:
        self.cluster = Stoppable()
        self.now: datetime = NOW
        nothing: Any = None
        worlds = FakeWorlds(StrictModel())
        self.observe = Observe(worlds, nothing, nothing, nothing, self.cluster, lambda: self.now)
        self.subject = Subject(a_fleet_agent(), Memory().record(), "fa/test/")

    async def problem(self) -> LaunchProblem | None:
        return await self.observe.launch_problem(self.subject)


async def test_the_installations_stop_is_seen_and_so_is_its_end() -> None:
    scene = Scene()
    scene.cluster.stop = STOP

    assert await scene.problem() == LaunchProblem("InstallationStopped", f"nothing is launched or stopped: {STOP}")

    scene.cluster.stop = None
    scene.now += STOP_LIFE
    assert await scene.problem() is None


async def test_a_burst_of_looks_asks_for_the_stop_once() -> None:
    scene = Scene()
    for _ in range(5):
        await scene.problem()
    scene.now += STOP_LIFE - timedelta(microseconds=1)
    await scene.problem()

    assert scene.cluster.asked == 1


def test_people_see_in_the_conditions_that_nothing_can_be_launched() -> None:
    spec = a_fleet_agent().spec
    seen = an_observation(launch_problem=LaunchProblem("InstallationStopped", STOP))

    found = {f.type: f for f in findings(spec, seen, Health(model_asked=True), NOW)}

    assert (found["CanLaunch"].status, found["CanLaunch"].reason) == ("False", "InstallationStopped")
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "InstallationStopped")
    assert STOP in found["CanLaunch"].message
