"""What this machine has, and what a process on it takes: read from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
KIB_PER_MIB = 1024


def machine_line() -> str:
    """Cores, memory, and how busy the machine was before we began; nothing that names it."""
    total_kib = _kib(Path("/proc/meminfo").read_text(), "MemTotal")
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {total_kib / KIB_PER_MIB / 1024:.0f} GiB of memory, load {load:.1f} when it began"


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of a process and its children, in MiB, and the CPU seconds that they have used so far."""

    rss_mib: float
    pss_mib: float
    """Shared pages counted in parts: what the process really adds to the machine."""

    cpu_seconds: float


def footprint(pid: int) -> Footprint:
    """Of a process and all its children, at this moment."""
    parts = [_of_one(each) for each in _family(pid)]
    return Footprint(sum(p.rss_mib for p in parts), sum(p.pss_mib for p in parts), sum(p.cpu_seconds for p in parts))


def _of_one(pid: int) -> Footprint:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    # The name in brackets may hold spaces; utime and stime are fields 14 and 15, counted from 1.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_seconds = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
    return Footprint(_kib(rollup, "Rss") / KIB_PER_MIB, _kib(rollup, "Pss") / KIB_PER_MIB, cpu_seconds)


def _family(pid: int) -> list[int]:
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [pid, *(each for child in children for each in _family(child))]


def _kib(text: str, name: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:"))
