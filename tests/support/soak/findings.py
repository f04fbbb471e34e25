"""What a soak has shown: read from Postgres, the market and the processes, and held against the promises."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

from support.soak.plan import TAKEN_OVER_WITHIN, Plan
from support.soak.replicas import Life, Struck
from support.soak.slots import Count, Slot, count
from support.stage import Stage

SLOTS = """
SELECT a.id AS agent, a.next_scheduled_at, t.value, r.started_at FROM triggers t
JOIN agents a ON a.id = t.agent_id
LEFT JOIN runs r ON r.agent_id = t.agent_id AND r.run_id = t.claimed_by_run AND r.state = 'finished'
WHERE t.kind = 'Schedule' AND a.name LIKE 'steady-%%' ORDER BY a.id, t.value, t.id
"""
RUNS = "SELECT agent_id, run_id, state, outcome, model_calls, started_at, finished_at FROM runs ORDER BY 1, 2"
LAUNCHES = "SELECT agent_id, run_id, created_at, label FROM actions WHERE kind = 'launch' AND state <> 'refused'"
WARM_AFTER_S = 60.0
"""A process has read its vocabulary, and every agent has had some runs, before its memory is compared."""


@dataclass(frozen=True, slots=True)
class Memory:
    """How one process grew: the longest life that was long enough to tell."""

    lived_s: float
    at_a_quarter_mb: float
    at_the_end_mb: float
    peak_mb: float

    @property
    def mb_per_hour(self) -> float:
        """From the first quarter of its life to its end."""
        return (self.at_the_end_mb - self.at_a_quarter_mb) / max(1.0, 0.75 * self.lived_s) * 3600


@dataclass(frozen=True, slots=True)
class Findings:
    """Figures for the page, and for a verdict."""

    lasted_s: float
    slots: Count
    runs: int
    finished: int
    interrupted: int
    asked_the_model: int
    outcomes: dict[str, int]
    holes: int
    """Run numbers that no row has."""

    overlaps: int
    """Runs that began before the one before them had ended."""

    still_running: int
    blows: tuple[Struck, ...]
    resumed_after_s: tuple[float, ...]
    """After each blow, until the next run of any agent began."""

    changes: int
    launches: int
    created: int
    most_per_run: int
    """Launches of one run."""

    memory: Memory | None
    cores: float
    """How much of the machine the operators took."""

    def broken(self, plan: Plan, launches_per_run: int) -> list[str]:
        """Each promise that was not kept, in words."""
        kept = {
            f"{len(self.slots.late)} runs were more than an interval late": not self.slots.late,
            f"{self.slots.lost} scheduled runs were lost": not self.slots.lost,
            f"{self.slots.twice} scheduled runs were called for twice": not self.slots.twice,
            f"{self.slots.drifted} scheduled runs were off the beat": not self.slots.drifted,
            f"{self.holes} run numbers are missing": not self.holes,
            f"{self.overlaps} runs overlap": not self.overlaps,
            f"{self.still_running} runs never ended": not self.still_running,
            f"{self.created} machines for {self.launches} intents": self.created <= self.launches,
            f"no run for {max(self.resumed_after_s, default=0):.0f} s after a blow": (
                max(self.resumed_after_s, default=0) <= TAKEN_OVER_WITHIN.total_seconds()
            ),
            f"{self.most_per_run} launches in one run": self.most_per_run <= launches_per_run,
            f"only {self.slots.served} runs of {plan.agents * plan.rounds}": (
                self.slots.served + self.slots.merged >= plan.agents * plan.rounds
            ),
        }
        return [words for words, good in kept.items() if not good]

    def figures(self) -> dict[str, Any]:
        """As JSON: what was counted, and percentiles of the delays in seconds."""
        delays = sorted(d.total_seconds() for d in self.slots.delays)
        told = {k: v for k, v in asdict(self).items() if k != "slots"}
        return told | {
            "scheduled_served": self.slots.served,
            "merged_after_downtime": self.slots.merged,
            "lost": self.slots.lost,
            "twice": self.slots.twice,
            "drifted": self.slots.drifted,
            "late": len(self.slots.late),
            "late_worst_s": max((s.late.total_seconds() for s in self.slots.late), default=0.0),
            "taken_over": len(self.slots.taken_over),
            "taken_over_worst_s": max((s.late.total_seconds() for s in self.slots.taken_over), default=0.0),
            "delay_p50_s": percentile(delays, 50),
            "delay_p99_s": percentile(delays, 99),
            "delay_worst_s": delays[-1] if delays else 0.0,
            "mb_per_hour": self.memory.mb_per_hour if self.memory else None,
        }


def read(stage: Stage, plan: Plan, *, until: datetime, blows: Sequence[Struck], **more: Any) -> Findings:
    """After the last process has ended, so that nothing moves any more."""
    runs = stage.rows(RUNS)
    by_agent = [list(rows) for _, rows in groupby(runs, key=lambda r: r["agent_id"])]
    launches = stage.rows(LAUNCHES)
    per_run = [sum(1 for _ in rows) for _, rows in groupby(sorted((a["agent_id"], a["run_id"]) for a in launches))]
    outcomes = sorted({str(r["outcome"]) for r in runs})
    return Findings(
        slots=count(_slots(stage), plan.interval, until=until, blows=[at for b in blows for at in b.moments]),
        runs=len(runs),
        finished=sum(r["state"] == "finished" for r in runs),
        interrupted=sum(r["state"] == "interrupted" for r in runs),
        still_running=sum(r["state"] == "running" for r in runs),
        asked_the_model=sum(r["model_calls"] > 0 for r in runs),
        outcomes={name: sum(str(r["outcome"]) == name for r in runs) for name in outcomes},
        holes=sum(rows[-1]["run_id"] - len(rows) for rows in by_agent),
        overlaps=sum(
            b["started_at"] < (a["finished_at"] or b["started_at"]) for rows in by_agent for a, b in pairwise(rows)
        ),
        blows=tuple(blows),
        resumed_after_s=tuple(_until_the_next_run(runs, b.at) for b in blows),
        launches=len(launches),
        most_per_run=max(per_run, default=0),
        **more,
    )


def memory_of(lives: Sequence[Life]) -> Memory | None:
    """Of the process that lived longest, if that was long enough."""
    longest = max(lives, key=lambda life: len(life.samples))
    warm = [(at, mb) for at, mb in longest.samples if at >= WARM_AFTER_S]
    if len(warm) < 8:
        return None
    quarter = len(warm) // 4
    ages, mbs = zip(*warm, strict=True)
    return Memory(
        lived_s=ages[-1] - ages[0],
        at_a_quarter_mb=_middle(mbs[max(0, quarter - 2) : quarter + 3]),
        at_the_end_mb=_middle(mbs[-5:]),
        peak_mb=max(mbs),
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The least that so many of a hundred do not pass."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0.0


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _until_the_next_run(runs: Sequence[dict[str, Any]], at: datetime) -> float:
    later = [(r["started_at"] - at).total_seconds() for r in runs if r["started_at"] > at]
    return round(min(later, default=float("inf")), 1)


def _slots(stage: Stage) -> list[list[Slot]]:
    """An agent's slots as they were planned; the value that is stored lacks the part of a second, always the same."""
    found: list[list[Slot]] = []
    for _, rows in groupby(stage.rows(SLOTS), key=lambda row: row["agent"]):
        found.append([Slot(_planned(row), row["started_at"]) for row in rows])
    return found


def _planned(row: dict[str, Any]) -> datetime:
    second = datetime.strptime(row["value"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return second + timedelta(microseconds=row["next_scheduled_at"].microsecond)
