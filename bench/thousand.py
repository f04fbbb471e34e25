"""A thousand agents in one process: what they take while no run is due, how soon all are watched, a hundred at once."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from bench import floor
from bench.machine import Footprint, footprint
from bench.page import Table, met
from bench.world import Annotator, a_world, add_agents, say, until, wait_for_quiet

from support.audit import asked_by
from support.servers import a_model
from support.stage import ACCOUNT, AS_INSTALLED, NAME, Stage

DELIVERED = AS_INSTALLED | {"market_pacing": "true"}
IDLE_SECONDS = 60.0
SETTLED_SECONDS = 30.0  # after the last first look, and before the idle time begins
MODEL_SECONDS = 1.0
CONNECTIONS = 10
STATUS = ("patch", "fleetagents.fleetagent.dev/status")

MOST_CPU, MOST_RSS_MIB, MOST_START_SECONDS, MOST_LATE_SECONDS, MOST_WRITES = 0.02, 320.0, 10.0, 3.0, 2.0


@dataclass(frozen=True, slots=True)
class Idle:
    """What a process took while nothing was due."""

    cpu_share: float
    rss_mib: float


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Runs that were asked for in one moment."""

    runs: int
    seconds: float
    """From the first annotation to the end of the last run."""
    ideal_seconds: float
    """What the model alone takes for the longest of them."""
    writes_per_run: float


def measure(agents: int, at_once: int) -> Table:
    """One operator with so many agents: started anew, at rest, with so many runs at once; then the floors at rest."""
    commands = floor.commands()
    with a_world(audit=True) as stage, a_model(latency_seconds=MODEL_SECONDS) as slow:
        say(f"thousand: {agents} FleetAgents are made, and each has its first run")
        stage.start_operator(**DELIVERED)
        add_agents(stage, at_once, model={"baseURL": slow.url, "name": "qwen3.5-122b"})
        add_agents(stage, agents - at_once, first=at_once)
        stage.kill_operator()
        say("thousand: the operator is started anew")
        started = _start(stage, agents)
        wait_for_quiet(stage)
        time.sleep(SETTLED_SECONDS)
        pid, before = stage.operators[-1].pid, _status_writes(stage)
        ours = _idle("ours", pid)
        written = _status_writes(stage) - before
        together = _at_once(stage, at_once)
        after = footprint(pid)
        stage.kill_operator()
        floors = dict(_floors_at_rest(stage, commands))
    return _table(agents, started, ours, written, together, after, floors)


def _start(stage: Stage, agents: int) -> float:
    """Seconds from the command to the moment when each agent has been gone through under its lease."""
    known = {row["id"]: row["lease_token"] for row in stage.rows("SELECT id, lease_token FROM agents")}
    begun = time.monotonic()
    stage.start_operator(**DELIVERED)
    tokens = "SELECT id, lease_token FROM agents"
    until(
        stage,
        lambda: sum(row["lease_token"] > known[row["id"]] for row in stage.rows(tokens)) >= agents,
        f"{agents} agents are watched",
    )
    return time.monotonic() - begun


def _idle(name: str, pid: int) -> Idle:
    say(f"thousand: {name}, at rest for {IDLE_SECONDS:.0f} s")
    before = footprint(pid)
    time.sleep(IDLE_SECONDS)
    after = footprint(pid)
    return Idle((after.cpu_seconds - before.cpu_seconds) / IDLE_SECONDS, after.rss_mib)


def _status_writes(stage: Stage) -> int:
    return sum((each.verb, each.resource) == STATUS for each in asked_by(stage.cluster, ACCOUNT, stage.home))


def _at_once(stage: Stage, count: int) -> AtOnce:
    say(f"thousand: {count} runs at once, of a model that takes {MODEL_SECONDS:.0f} s")
    writes = _status_writes(stage)
    with ExitStack() as stack, ThreadPoolExecutor(CONNECTIONS) as threads:
        annotators = [stack.enter_context(Annotator.of(stage.cluster)) for _ in range(CONNECTIONS)]

        def ask(which: int) -> float:
            names = [f"{NAME}-{number:03}" for number in range(which, count, CONNECTIONS)]
            return min(annotators[which].request_run(name, "at once") for name in names)

        asked_at = min(threads.map(ask, range(CONNECTIONS)))
    ended = "SELECT model_calls, finished_at FROM runs WHERE state <> 'running' AND triggers ? 'Request'"
    until(stage, lambda: len(stage.rows(ended)) >= count, f"{count} runs end")
    runs = stage.rows(ended)
    wait_for_quiet(stage)
    return AtOnce(
        count,
        max(run["finished_at"].timestamp() for run in runs) - asked_at,
        max(run["model_calls"] for run in runs) * MODEL_SECONDS,
        (_status_writes(stage) - writes) / count,
    )


def _floors_at_rest(stage: Stage, commands: dict[str, list[str]]) -> Iterator[tuple[str, Idle]]:
    with Annotator.of(stage.cluster) as annotator:
        for name, command in commands.items():
            with floor.running(command, stage, f"{stage.model.url}/chat/completions") as process:
                floor.wait_until_ready(process, stage, annotator, f"{NAME}-000")
                time.sleep(SETTLED_SECONDS)
                yield name, _idle(f"floor: {name}", process.pid)


def _table(
    agents: int,
    started: float,
    ours: Idle,
    written: int,
    together: AtOnce,
    after: Footprint,
    floors: dict[str, Idle],
) -> Table:
    late = together.seconds - together.ideal_seconds
    per_run = f"{together.writes_per_run:.2f}"
    rows = [
        ["CPU at rest, share of a core", f"{ours.cpu_share:.2%}", f"≤ {MOST_CPU:.0%}", met(ours.cpu_share <= MOST_CPU)],
        ["RSS at rest", f"{ours.rss_mib:.0f} MiB", f"≤ {MOST_RSS_MIB:.0f}", met(ours.rss_mib <= MOST_RSS_MIB)],
        [f"status writes in {IDLE_SECONDS:.0f} s at rest", str(written), "0", met(written == 0)],
        [
            "start to all watched",
            f"{started:.1f} s",
            f"≤ {MOST_START_SECONDS:.0f} s",
            met(started <= MOST_START_SECONDS),
        ],
        [
            f"{together.runs} runs at once, beyond the model's own {together.ideal_seconds:.0f} s",
            f"{late:.1f} s",
            f"≤ {MOST_LATE_SECONDS:.0f} s",
            met(late <= MOST_LATE_SECONDS),
        ],
        ["status writes for each of them", per_run, "≤ 2", met(together.writes_per_run <= MOST_WRITES)],
        ["RSS after them", f"{after.rss_mib:.0f} MiB", "", ""],
    ]
    for name, idle in floors.items():
        rows.append([f"floor: {name}, at rest", f"{idle.cpu_share:.2%}, {idle.rss_mib:.0f} MiB", "", ""])
    return Table(
        columns=["", "measured", "goal", "met"],
        rows=rows,
        words=(
            f"{agents} FleetAgents in one namespace, static demand of nothing, no machines, a run once a day; the "
            "operator at its default pace, the market's limits included. Watched: gone through once "
            "under its lease, counted from the command. Status writes are counted in the API server's audit log; "
            "kopf's own patches and Events are others. At once: annotated over ten connections; from the first "
            "annotation to the end of the last run. The floors watch the same resources and do nothing."
        ),
    )
