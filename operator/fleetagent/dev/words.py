"""How the demo writes times, phases and runs."""

from collections import Counter
from datetime import datetime, timedelta

from fleetagent.dev.facts import Facts, Machine, PastRun
from fleetagent.domain.fleet import Phase


def span(length: timedelta) -> str:
    """`42 s`, `3:07`, `1:02:03`; what lies behind counts as now."""
    seconds = max(0, round(length.total_seconds()))
    if seconds < 100:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def until(moment: datetime | None, now: datetime) -> str:
    """`in 4 s`, or `now`."""
    if moment is None:
        return "not planned"
    return f"in {span(moment - now)}" if moment - now >= timedelta(seconds=1) else "now"


def by_phase(facts: Facts) -> str:
    """`3 proving, 2 loading`, in the order in which machines go."""
    counts = Counter(m.phase for m in facts.own_machines)
    found = [f"{counts[phase]} {phase}" for phase in reversed(Phase) if counts[phase]]
    return ", ".join(found) or "no machines"


def machine_name(machine: Machine) -> str:
    """The market's number, or the label while that is not known."""
    return machine.provider_id or machine.label


def gpu(machine: Machine) -> str:
    """`1x RTX 5090`."""
    return f"{machine.num_gpus}x {machine.gpu_name}"


def run_outcome(run: PastRun) -> str:
    """How it ended, or that it goes on."""
    return run.outcome or ("running" if run.state == "running" else run.state)


def run_story(run: PastRun) -> str:
    """What it did, on one line."""
    return " ".join((run.summary or run.error or "").split())


def tokens(count: int | None) -> str:
    """With separators; `none yet` before the first request."""
    return "none yet" if count is None else f"{count:,}"
