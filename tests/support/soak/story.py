"""A soak from its first agent to its findings."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from support.cluster import eventually
from support.manifests import Json, merged
from support.replicas import with_peering
from support.servers import in_a_thread
from support.soak.findings import Findings, memory_of, read
from support.soak.plan import Plan
from support.soak.replicas import Replicas, Struck
from support.soak.restless import Restless
from support.soak.service import Service
from support.stage import AS_INSTALLED, Stage

PACE = AS_INSTALLED | {"settling_seconds": "20", "confirm_gone_seconds": "5"}
"""The operator's own pace, but for how soon it is sure of a machine: else a soak would end with minutes of waiting."""

LAUNCHES_PER_RUN = 4
ONE_IN = 10
"""So many of the steady agents have a machine; the others look at their fleet of none."""

STEADY: Json = {"target": {"proofsPerHour": 0}, "limits": {"launchesPerRun": LAUNCHES_PER_RUN}}
RENTING: Json = merged(STEADY, {"target": {"proofsPerHour": 20}})
RESTLESS: Json = merged(RENTING, {"schedule": {"interval": "20s", "skipUnchanged": False}})
SAID_EVERY_S = 15.0


@dataclass(frozen=True, slots=True)
class Soak:
    """What it was, and what it showed."""

    plan: Plan
    found: Findings

    def broken(self) -> list[str]:
        """Each promise that was not kept, in words."""
        return self.found.broken(self.plan, LAUNCHES_PER_RUN)

    def write(self, path: Path) -> None:
        """The figures as JSON."""
        path.write_text(json.dumps(self.found.figures(), indent=1, default=str) + "\n", encoding="utf-8")


def soak(stage: Stage, plan: Plan, *, say: Callable[[str], None], **settings: str) -> Soak:
    """Two replicas, `plan.agents` agents with their runs, blows, and people who want something every second."""
    replicas = Replicas(with_peering(stage), **PACE, **settings)
    names = tuple(f"restless-{number:02}" for number in range(plan.restless))
    people = Restless(stage, names, plan.seed)
    blows: list[Struck] = []
    with _service(stage, replicas), replicas.kept():
        _apply(stage, plan, names)
        _wait_until(lambda: _settled(stage, plan), f"{plan.agents + plan.restless} agents have had a run", 300)
        began, cpu_s = time.monotonic(), replicas.cpu_s()
        with people.at_work():
            for planned in plan.drawn():
                _pass(stage, began, planned.after_s, say)
                blows.append(struck := replicas.strike(planned))
                say(f"{planned.after_s:.0f} s: {struck.blow} to replica {struck.replica}, active: {struck.active}")
            _pass(stage, began, plan.lasts_s, say)
        until, lasted = datetime.now(UTC), time.monotonic() - began  # noqa: TID251  # what was planned until now counts
        cores = (replicas.cpu_s() - cpu_s) / lasted
        _wait_until(lambda: not people.unserved(), "the last request of each agent is served", 60)
        stage.wait_for_books(within_s=90)
        time.sleep(plan.interval_s)  # whatever was planned until the end may be served an interval later
    found = read(
        stage,
        plan,
        until=until,
        blows=blows,
        lasted_s=round(lasted, 1),
        changes=people.changes,
        created=stage.market.get("state")["created"],
        memory=memory_of(replicas.lives),
        cores=round(cores, 2),
    )
    return Soak(plan, found)


def _wait_until(true: Callable[[], bool], what: str, within_s: float) -> None:
    """Whichever replica lives, and without asking more than it takes: a look goes through all agents."""
    eventually(true, what, within_s=within_s, every_s=0.5)


@contextmanager
def _service(stage: Stage, replicas: Replicas) -> Iterator[None]:
    """Machines reach either replica by the one address that they were given."""
    serving: Callable[[], AbstractAsyncContextManager[Any]] = lambda: Service(replicas.worker_ports).listening(  # noqa: E731
        stage.worker_port
    )
    with in_a_thread(serving):
        yield


def _apply(stage: Stage, plan: Plan, restless: tuple[str, ...]) -> None:
    """Those that want a machine one after another, or all would want the same offer; the others in portions."""
    schedule = {"schedule": {"interval": f"{plan.interval_s}s"}}
    renting = [n for n in range(plan.agents) if n % ONE_IN == 0]
    for machines, number in enumerate(renting, 1):
        _apply_together(stage, [_agent(stage, f"steady-{number:03}", merged(RENTING, schedule))])
        _wait_until(lambda machines=machines: _rented(stage) >= machines, f"{machines} machines are rented", 60)  # type: ignore[misc]
    rest = [_agent(stage, f"steady-{n:03}", merged(STEADY, schedule)) for n in range(plan.agents) if n not in renting]
    rest += [_agent(stage, name, RESTLESS) for name in restless]
    for first in range(0, len(rest), 10):
        _apply_together(stage, rest[first : first + 10])


def _agent(stage: Stage, name: str, spec: Json) -> Json:
    return stage.manifest(metadata={"name": name}, spec=spec)


def _apply_together(stage: Stage, agents: list[Json]) -> None:
    stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(agents))


def _rented(stage: Stage) -> int:
    return len(stage.rows("SELECT DISTINCT agent_id FROM instances"))


def _settled(stage: Stage, plan: Plan) -> bool:
    """All agents have had a run."""
    finished = "SELECT count(DISTINCT agent_id) AS agents FROM runs WHERE state = 'finished'"
    return bool(stage.rows(finished)[0]["agents"] == plan.agents + plan.restless)


def _pass(stage: Stage, began: float, until_s: float, say: Callable[[str], None]) -> None:
    """Let the time pass, and say now and then how many runs there were."""
    wait = threading.Event()
    while (left := began + until_s - time.monotonic()) > 0:
        wait.wait(min(left, SAID_EVERY_S))
        runs = stage.rows("SELECT count(*) AS runs FROM runs")[0]["runs"]
        say(f"{time.monotonic() - began:.0f} s: {runs} runs")
