"""How long our own start takes: from the command `fleetagent dev`, all programs built already, to the first run."""

import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg
from bench.page import Table, met
from bench.world import ROOT, say

from fleetagent.dev.binaries import find_binaries

GOAL_SECONDS = 20.0
STARTS = 3
WITHIN_SECONDS = 180.0
END_SECONDS = 30.0
STEP = re.compile(r"^\s*[\d.]+ s  (\S+(?: \S+)*)  ")
BEGINS, OVER = "first run begins", "first run is over"


def measure() -> Table:
    """Several starts; of each phase the median and the worst."""
    find_binaries(progress=say)
    starts = []
    for number in range(1, STARTS + 1):
        say(f"start: {number} of {STARTS}")
        starts.append(_one_start())
    rows = []
    for phase in starts[0]:
        seconds = [start[phase] for start in starts]
        median = statistics.median(seconds)
        goal = [f"≤ {GOAL_SECONDS:.0f} s", met(median <= GOAL_SECONDS)] if phase == OVER else ["", ""]
        rows.append([phase, f"{median:.1f} s", f"{max(seconds):.1f} s", *goal])
    return Table(
        columns=["after the command", "median", "worst", "goal", "met"],
        rows=rows,
        words=(
            f"`fleetagent dev`, {STARTS} times, with the control plane's programs built and in the cache. The steps "
            "are those that it prints itself. The first run asks the model, which takes 0.2 s for each answer."
        ),
    )


def _one_start() -> dict[str, float]:
    """Seconds from the start of the process to the end of each phase."""
    with tempfile.TemporaryDirectory(prefix="fleetagent-bench-") as folder:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("FLEETAGENT_")}
        variables |= {"PYTHONPATH": str(ROOT / "operator"), "PYTHONUNBUFFERED": "1"}
        began = time.time()
        process = subprocess.Popen(
            [sys.executable, "-m", "fleetagent", "dev", "--for", f"{WITHIN_SECONDS:.0f}s"],
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines: list[tuple[float, str]] = []
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        try:
            begins, over = _first_run(process, Path(folder) / ".fleetagent" / "dev.json", lines)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(END_SECONDS)
            reader.join(END_SECONDS)
    steps = {found[1]: at - began for at, line in lines if (found := STEP.match(line))}
    return {**steps, BEGINS: begins - began, OVER: over - began}


def _read(process: subprocess.Popen[str], lines: list[tuple[float, str]]) -> None:
    lines.extend((time.time(), line) for line in process.stdout or ())


def _first_run(process: subprocess.Popen[str], addresses: Path, lines: list[tuple[float, str]]) -> tuple[float, float]:
    """When it began and ended, by the database's own record; its clock is this machine's."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, psycopg.errors.UndefinedTable):
            url = json.loads(addresses.read_text())["databaseURL"]
            with psycopg.connect(url, autocommit=True) as database:
                query = "SELECT started_at, finished_at FROM runs WHERE finished_at IS NOT NULL ORDER BY run_id LIMIT 1"
                if row := database.execute(query).fetchone():
                    return row[0].timestamp(), row[1].timestamp()
        time.sleep(0.1)
    raise RuntimeError("no first run:\n" + "".join(line for _, line in lines[-30:]))
