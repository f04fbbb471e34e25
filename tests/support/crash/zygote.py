"""A process that has imported everything, and forks one child for each job: `python -m support.crash.zygote`.

It has neither threads nor an event loop, so a fork of it is a fresh process. Jobs come as lines of JSON; the answer to
each is the child's exit code, negative for the signal that ended it.
"""

import asyncio
import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetagent.adapters.tokens import TiktokenTokens
from support.crash.points import Points
from support.crash.scenes import SCENES
from support.engine import Engine, MovedClock, StoredCluster, a_body, an_engine

LONGEST_S = 90
BEATS = 5


class ReportingCluster(StoredCluster):
    """Its reports are points, too."""

    points: Points

    async def patch_status(self, *args: Any) -> Mapping[str, Any] | None:
        self.points.at("before status")
        came_back = await super().patch_status(*args)
        self.points.at("after status")
        return came_back


async def be_killed(job: dict[str, Any]) -> dict[str, Any]:
    """Play the scene until the point at which this process dies; without one, tell all points."""
    scene, folder = SCENES[job["scene"]], Path(job["folder"])
    points = Points(job["point"], folder / "last-words")
    cluster = ReportingCluster(scene.body(a_body(job["market"], job["model"])), folder / "status.json")
    cluster.points = points
    async with an_engine(job["database"], cluster, owner="killed") as engine:
        points.watch_database(engine.pool)
        points.watch_market(engine.built.http)
        await scene.act(engine)
        points.disarm()
    return {"points": points.passed, "errors": engine.complaints.said}


async def take_over(job: dict[str, Any]) -> dict[str, Any]:
    """Another process goes on: time passes until all is settled, then a further run is asked for."""
    scene, folder = SCENES[job["scene"]], Path(job["folder"])
    cluster = StoredCluster(scene.body(a_body(job["market"], job["model"])), folder / "status.json")
    async with an_engine(job["database"], cluster, clock=MovedClock(), owner="after it") as engine:
        engine.clock.advance(minutes=1)
        if scene.ends:
            await scene.act(engine)
        else:
            await settle(engine)
    return {"status": cluster.status, "errors": engine.complaints.said, "events": cluster.events}


async def settle(engine: Engine) -> None:
    """Some looks over more than ten minutes, a run that a person asks for, and what comes of it."""
    for _ in range(BEATS):
        await engine.beat(seconds=150)
    await engine.ask("further", minutes=1)
    for _ in range(2):
        await engine.beat(seconds=150)


def _child(job: dict[str, Any]) -> None:
    signal.alarm(LONGEST_S)
    folder = Path(job["folder"])
    log = os.open(folder / f"{job['do']}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    code = 1
    try:
        result = asyncio.run(be_killed(job) if job["do"] == "be_killed" else take_over(job))
        (folder / f"{job['do']}.json").write_text(json.dumps(result, default=str))
        code = 0
    except BaseException:  # noqa: BLE001  # the child's last line: whatever it was, its parent reads it
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Fork for each line, wait, answer."""
    TiktokenTokens().estimate("the vocabulary is read once")
    gc.freeze()
    assert threading.active_count() == 1, "a fork would inherit other threads' locks"
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _child(job)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
