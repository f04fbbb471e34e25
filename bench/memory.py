"""What the operator takes when nothing happens: memory, and its share of a core."""

import time
from dataclasses import dataclass

from bench import floor
from bench.machine import footprint
from bench.page import Table
from bench.world import Annotator, a_settled_fleet, a_world, say

from support.stage import AS_INSTALLED

WINDOW_SECONDS = 60.0  # a beat and two looks at the market


@dataclass(frozen=True, slots=True)
class Idler:
    """One process that has nothing to do."""

    name: str
    rss_mib: float
    pss_mib: float
    cpu_share: float

    def cells(self) -> list[str]:
        """For a row."""
        return [self.name, f"{self.rss_mib:.0f} MiB", f"{self.pss_mib:.0f} MiB", f"{self.cpu_share:.1%}"]


def measure() -> Table:
    """The operator with one agent after its first runs, then the floors with the same resource."""
    idlers, commands = [], floor.commands()
    with a_world() as stage, Annotator.of(stage.cluster) as annotator:
        operator = stage.start_operator(**AS_INSTALLED)
        a_settled_fleet(stage)
        idlers.append(_idle("ours", operator.pid))
        stage.kill_operator()
        for name, command in commands.items():
            with floor.running(command, stage, f"{stage.model.url}/chat/completions") as process:
                floor.wait_until_ready(process, stage, annotator)
                idlers.append(_idle(f"floor: {name}", process.pid))
    ours = idlers[0].rss_mib
    return Table(
        columns=["", "RSS", "PSS", "CPU, share of a core", "RSS, ours to it"],
        rows=[[*each.cells(), f"{ours / each.rss_mib:.1f}"] for each in idlers],
        words=(
            "One FleetAgent whose fleet is on target and proves, after its first runs; no run falls into the "
            f"{WINDOW_SECONDS:.0f} s, but the operator's beat (every 60 s) and looks at the market (every 30 s) do."
        ),
    )


def _idle(name: str, pid: int) -> Idler:
    say(f"memory: {name}, idle for {WINDOW_SECONDS:.0f} s")
    before = footprint(pid)
    time.sleep(WINDOW_SECONDS)
    after = footprint(pid)
    return Idler(name, after.rss_mib, after.pss_mib, (after.cpu_seconds - before.cpu_seconds) / WINDOW_SECONDS)
