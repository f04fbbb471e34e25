"""Twenty minutes with a hundred agents and twenty blows, as `make soak` plays them: what was late, lost or grew."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from bench.page import Table, met
from bench.world import say

FIGURES = Path("dist/soak.json")
MOST_GROWTH = 1.1


def measure(figures: Path | None) -> Table:
    """Play the soak, unless the figures of one that was played are named."""
    if figures is None:
        say("soak: 20 minutes")
        figures = FIGURES
        subprocess.run([sys.executable, "-m", "pytest", "tests/soak", f"--figures={figures}"], check=True)
    return _table(json.loads(figures.read_text()))


def _table(found: dict[str, Any]) -> Table:
    blows = Counter(blow["blow"] for blow in found["blows"])
    struck = ", ".join(f"{count} {blow}" for blow, count in sorted(blows.items()))
    memory = found["memory"]
    grown = memory["at_the_end_mb"] / memory["at_a_quarter_mb"]
    none = [
        [what, str(found[name]), "0", met(found[name] == 0)]
        for what, name in (
            ("runs more than one interval late, 30 s after each blow aside", "late"),
            ("planned moments that no run followed", "lost"),
            ("planned moments that called twice", "twice"),
            ("planned moments off the beat of the first", "drifted"),
            ("run numbers without a row", "holes"),
            ("runs that began before the one before had ended", "overlaps"),
        )
    ]
    return Table(
        columns=["", "measured", "goal", "met"],
        rows=[
            ["runs", f"{found['runs']:,}", "", ""],
            *none,
            [
                "machines made, launches in the ledger",
                f"{found['created']} of {found['launches']}",
                "no more than these",
                met(found["created"] <= found["launches"]),
            ],
            [
                "memory at the end, beside a quarter of its life, of the process that lived longest",
                f"{memory['at_the_end_mb']:.1f} of {memory['at_a_quarter_mb']:.1f} MiB in {memory['lived_s']:.0f} s",
                f"≤ {MOST_GROWTH:.0%}",
                met(grown <= MOST_GROWTH),
            ],
            ["planned moment to the run's begin, p50, p99, worst", _delays(found), "", ""],
            ["a run of some agent after a blow, worst", f"{max(found['resumed_after_s']):.1f} s", "≤ 30 s", ""],
            ["of a core, both replicas", f"{found['cores']:.2f}", "", ""],
        ],
        words=(
            f"100 agents with a run every 10 seconds for {found['lasted_s']:.0f} s, and ten more that are never left "
            f"alone; two replicas with a peering; {len(found['blows'])} blows at random moments: {struck}. The "
            "delays count those after blows. docs/how-to/run-the-tests.md says what is counted how."
        ),
    )


def _delays(found: dict[str, Any]) -> str:
    return f"{found['delay_p50_s'] * 1000:.0f} ms, {found['delay_p99_s']:.1f} s, {found['delay_worst_s']:.1f} s"
