"""From sending the annotation to the arrival of a request: our operator at its model, the floors at the same server."""

import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from bench import floor
from bench.page import Table, met
from bench.world import Annotator, a_settled_fleet, a_world, add_agents, say

from support.stage import AS_INSTALLED, NAME, Stage

GOAL_MS, GOAL_P99_MS = 30.0, 100.0
WARM_UP = 5
PAUSE_SECONDS = 0.3  # the report of one run is out before the next one is asked for
REST_SECONDS = 20.0  # longer than what is remembered of Secrets, and than idle connections last
RESTED_SAMPLES = 10
TAKEN_AT_MOST = 3  # times as many tries as samples: what another run fell into does not count
RUN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """Sorted, in milliseconds."""

    ms: tuple[float, ...]

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Latencies":
        """Of seconds."""
        return cls(tuple(sorted(seconds * 1000 for seconds in samples)))

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.ms)

    @property
    def p99(self) -> float:
        """The least that 99 of 100 do not pass."""
        return self.ms[-(-len(self.ms) * 99 // 100) - 1]


def measure(samples: int, agents: int) -> Table:
    """Ours and the floors, one after the other, on the same control plane with the same resources."""
    commands = floor.commands()  # building one would disturb what is measured
    with a_world() as stage, Annotator.of(stage.cluster) as annotator:
        say(f"latency: a fleet on target, then {agents} FleetAgents")
        stage.start_operator(**AS_INSTALLED)
        a_settled_fleet(stage)
        add_agents(stage, agents - 1)
        _ours(stage, annotator, WARM_UP, PAUSE_SECONDS)
        say(f"latency: {samples} requests to our operator")
        ours = _ours(stage, annotator, samples, PAUSE_SECONDS)
        say(f"latency: {RESTED_SAMPLES} more, each after {REST_SECONDS:.0f} s of rest")
        rested = _ours(stage, annotator, RESTED_SAMPLES, REST_SECONDS)
        stage.kill_operator()
        floors: dict[str, Latencies] = {}
        for name, command in commands.items():
            say(f"latency: {samples} requests to the {name} floor")
            floors[name] = _floor(command, stage, annotator, samples)
        return _table(ours, rested, floors, agents)


def _ours(stage: Stage, annotator: Annotator, samples: int, pause_seconds: float) -> Latencies:
    """Each run is over and reported before the next is asked for; samples that other runs fell into are taken again."""
    taken: list[float] = []
    with psycopg.connect(stage.database_url, autocommit=True) as database:
        for _ in range(samples * TAKEN_AT_MOST):
            if len(taken) == samples:
                return Latencies.of(taken)
            time.sleep(pause_seconds)
            runs, last = _runs(database), floor.requests_so_far(stage)
            value = uuid.uuid4().hex
            sent_at = annotator.request_run(NAME, value)
            _wait_until_served(stage, database, value)
            arrived = stage.model.requests(after=last)
            if _runs(database) == runs + 1 and arrived:
                taken.append(arrived[0]["received_at"] - sent_at)
    raise RuntimeError(f"other runs fell into too many of the samples: {len(taken)} of {samples} are good")


def _runs(database: psycopg.Connection) -> int:
    row = database.execute("SELECT count(*) FROM runs").fetchone()
    return int(row[0]) if row else 0


def _wait_until_served(stage: Stage, database: psycopg.Connection, value: str) -> None:
    """First by the database, which costs the operator nothing, then by the status that it writes last."""
    served = "SELECT 1 FROM agents WHERE name = %s AND handled->>'request' = %s"
    deadline = time.monotonic() + RUN_SECONDS
    while database.execute(served, (NAME, value)).fetchone() is None:
        _in_time(deadline, "the run ends")
        time.sleep(0.02)
    while stage.status().get("lastHandledRequest") != value:
        _in_time(deadline, "the status tells of the run")
        time.sleep(0.1)


def _in_time(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise RuntimeError(f"not in time: {what}")


def _floor(command: list[str], stage: Stage, annotator: Annotator, samples: int) -> Latencies:
    taken: list[float] = []
    with floor.running(command, stage, f"{stage.model.url}/chat/completions") as process:
        floor.wait_until_ready(process, stage, annotator)
        for number in range(WARM_UP + samples):
            time.sleep(PAUSE_SECONDS)
            seconds = floor.sample(stage, annotator, RUN_SECONDS)
            if seconds is None:
                raise RuntimeError("the floor did not answer")
            if number >= WARM_UP:
                taken.append(seconds)
    return Latencies.of(taken)


def _table(ours: Latencies, rested: Latencies, floors: dict[str, Latencies], agents: int) -> Table:
    goal, is_met = (
        f"p50 ≤ {GOAL_MS:.0f} ms, p99 ≤ {GOAL_P99_MS:.0f} ms",
        ours.p50 <= GOAL_MS and ours.p99 <= GOAL_P99_MS,
    )
    rows = [["ours", str(len(ours.ms)), _ms(ours.p50), _ms(ours.p99), goal, met(is_met)]]
    rows.append(["ours, rested", str(len(rested.ms)), _ms(rested.p50), f"{_ms(rested.ms[-1])} (the worst)", "", ""])
    for name, found in floors.items():
        rows.append([f"floor: {name}", str(len(found.ms)), _ms(found.p50), _ms(found.p99), "", ""])
    for row, found in zip(rows, [ours, rested, *floors.values()], strict=True):
        row += [f"{found.p50 / each.p50:.1f}" for each in floors.values()]
    return Table(
        columns=["", "samples", "p50", "p99", "goal", "met", *(f"p50 / {name}" for name in floors)],
        rows=rows,
        words=(
            f"From sending the annotation patch to the arrival of the request at the model server, with {agents} "
            "FleetAgents present. Ours: the operator as it is delivered, at its default pace, with a fleet on target; "
            "it writes down the trigger, claims the run, reads the market and the ledger, and composes the prompt "
            f"before it asks. Rested: each sample after {REST_SECONDS:.0f} s without a request. The floors do nothing "
            "but POST the value to the same server."
        ),
    )


def _ms(value: float) -> str:
    return f"{value:.1f} ms"
