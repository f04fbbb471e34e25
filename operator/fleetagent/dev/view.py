"""The live view: facts → what a terminal shows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from fleetagent.dev import words
from fleetagent.dev.facts import Facts
from fleetagent.domain.resource import Annotation, FleetAgent

BAR_WIDTH = 24
FEWEST_RUNS, MOST_RUNS = 2, 6
FIXED_LINES = 27
"""All lines but those of runs and machines; what is left of the terminal's height is theirs."""

GOOD, BAD, DIM = "green", "bold red", "dim"
OUTCOMES = {"Acted": "green", "Held": "cyan", "Skipped": DIM, "running": "yellow"}
PHASES = {"proving": "green", "stopping": DIM}


@dataclass(frozen=True, slots=True)
class Shown:
    """What the view says beside the facts."""

    name: str
    kubeconfig: Path
    kubectl: Path | None = None
    """Where it is, if it is not on PATH."""

    left: timedelta | None = None
    notes: Sequence[str] = ()


def view(facts: Facts, shown: Shown, *, height: int = 50) -> RenderableType:
    """The whole picture, cut to the height of the terminal: first fewer machines, then fewer runs."""
    room = max(0, height - FIXED_LINES)
    runs = min(MOST_RUNS, max(FEWEST_RUNS, room // 2))
    machines = max(0, room - runs)
    parts: list[RenderableType] = [_headline(facts, shown), _figures(facts)]
    if machines and facts.own_machines:
        parts.append(_machines(facts, machines))
    parts += [_runs(facts, runs), *_troubles(facts, shown), _to_try(shown)]
    return Group(*parts)


def to_try(name: str, kubeconfig: Path, kubectl: Path | None) -> Iterator[tuple[str, str]]:
    """What to type in another terminal, each with a word on what it does; no command is longer than 80 characters."""
    if kubectl is not None:
        yield f"alias kubectl={kubectl}", ""
    yield f"export KUBECONFIG={kubeconfig}", ""
    annotate = f"kubectl annotate fa {name} --overwrite"
    yield f"kubectl get fa {name} -w", "watch"
    yield f"{annotate} {Annotation.REQUESTED_AT}=$RANDOM", "run now"
    yield f'{annotate} {Annotation.MESSAGE}="prefer EU hosts"', "say"
    yield f"{annotate} {Annotation.RESET_REQUESTED_AT}=$RANDOM", "new session"
    yield f'kubectl patch fa {name} --type=merge -p \'{{"spec":{{"mode":"Suspended"}}}}\'', "Act: go on"


def _headline(facts: Facts, shown: Shown) -> RenderableType:
    line = Text.assemble(("FleetAgent ", DIM), (shown.name, "bold"))
    if facts.agent is not None:
        line.append(f"  {facts.agent.spec.mode}")
        if (session := facts.agent.status.session) is not None:
            line.append(f"  session {session.id}")
        for kind in ("Ready", "OnTarget"):
            found = next((c for c in facts.agent.status.conditions if c.type == kind), None)
            status = found.status if found else "Unknown"
            line.append("  ").append(f"{kind}: {status}", GOOD if status == "True" else "yellow")
    right = Text("" if shown.left is None else f"ends in {words.span(shown.left)}", "bold")
    head = Table.grid(expand=True)
    head.add_column()
    head.add_column(justify="right")
    head.add_row(line, right)
    return Group(head, Rule(style=DIM))


def _figures(facts: Facts) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=DIM, width=10)
    grid.add_column(width=BAR_WIDTH)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    if facts.agent is None:
        grid.add_row("fleet", "", "not known")
        return grid
    for name, bar, text in _rows(facts, facts.agent):
        grid.add_row(name, bar, text)
    return grid


def _rows(facts: Facts, agent: FleetAgent) -> Iterator[tuple[str, RenderableType, RenderableType]]:
    spec, status = agent.spec, agent.status
    fleet, session, spend = status.fleet, status.session, status.spend
    measured = (fleet.proofs_per_hour if fleet else None) or Decimal(0)
    projected = (fleet.projected_proofs_per_hour if fleet else None) or Decimal(0)
    bill = (fleet.usd_per_hour if fleet else None) or Decimal(0)
    wanted, budget = spec.target.proofs_per_hour, spec.budget.fleet_usd_per_hour
    today = f", {spend.fleet_usd_today:.2f} USD today" if spend and spend.fleet_usd_today is not None else ""
    yield "proofs/h", _bar(measured, wanted), f"{measured:.0f} measured, {projected:.0f} projected, target {wanted}"
    yield "USD/h", _bar(bill, budget, over=BAD), f"{bill:.2f} of {budget:.2f}{today}"
    used = session.context_tokens if session else None
    text = f"{words.tokens(used)} of {spec.context.token_budget:,} by the backend's count"
    if spend and spend.model_tokens_today is not None:
        text += f"; {spend.model_tokens_today:,} used today"
    yield "tokens", _bar(Decimal(used or 0), spec.context.token_budget, over=BAD), text
    yield "fleet", words.by_phase(facts) if not fleet else _count(fleet.instances), words.by_phase(facts)
    yield "next run", words.until(status.next_run_at, facts.at), _wakes(facts, agent)
    yield "alerts", _count(status.open_alerts, "open"), _alerts(facts)


def _count(number: int | None, what: str = "machines") -> str:
    return f"{number or 0} {what}"


def _bar(value: Decimal, full: Decimal | int, *, over: str = GOOD) -> ProgressBar:
    style = over if value > full else GOOD
    return ProgressBar(
        total=float(full) or 1.0,
        completed=float(min(value, Decimal(full))),
        width=BAR_WIDTH,
        complete_style=style,
        finished_style=style,
    )


def _wakes(facts: Facts, agent: FleetAgent) -> Text:
    wakes = agent.status.pending_wakes
    if not wakes:
        return Text("no wakes pending", DIM)
    shown = [f"wake {w.id} {words.until(w.at, facts.at)}: {w.reason or ''}" for w in wakes[:2]]
    more = f"  (+{len(wakes) - 2})" if len(wakes) > 2 else ""
    return Text("; ".join(shown) + more, no_wrap=True, overflow="ellipsis")


def _alerts(facts: Facts) -> Text:
    alerts = facts.ledger.alerts if facts.ledger else ()
    if not alerts:
        return Text("none", DIM)
    newest = alerts[-1]
    text = f"alert-{newest.id} ({newest.severity}): {newest.message}"
    return Text(" ".join(text.split()), "yellow", no_wrap=True, overflow="ellipsis")


def _table(*columns: tuple[str, str, int | None]) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style=DIM)
    for name, justify, width in columns:
        table.add_column(
            name,
            justify="right" if justify == "right" else "left",
            width=width,
            ratio=None if width else 1,  # the rest of the line, however long its text
            no_wrap=True,
            overflow="ellipsis",
        )
    return table


def _machines(facts: Facts, most: int) -> RenderableType:
    table = _table(
        ("machine", "left", 14),
        ("GPU", "left", 16),
        ("phase", "left", 13),
        ("for", "right", 8),
        ("proofs/h", "right", 14),
        ("USD/h", "right", 8),
        ("", "left", None),
    )
    every = facts.own_machines
    for machine in every[-most:]:
        measured = machine.measured_rate
        rate = f"{measured:.0f}" if measured is not None else f"~{machine.expected_rate:.0f} expected"
        table.add_row(
            words.machine_name(machine),
            words.gpu(machine),
            Text(machine.phase, PHASES.get(machine.phase, "yellow")),
            words.span(facts.at - machine.phase_since),
            rate,
            f"{machine.usd_per_hour:.2f}",
            "",
        )
    return Padding(table, (1, 0, 0, 0))


def _runs(facts: Facts, most: int) -> RenderableType:
    table = _table(
        ("run", "right", 5), ("ago", "right", 8), ("because", "left", 18), ("outcome", "left", 11), ("", "left", None)
    )
    for run in (facts.ledger.runs if facts.ledger else ())[:most]:
        outcome = words.run_outcome(run)
        table.add_row(
            str(run.run_id),
            words.span(facts.at - run.started_at),
            ", ".join(run.triggers),
            Text(outcome, OUTCOMES.get(outcome, BAD)),
            words.run_story(run),
        )
    return Padding(table, (1, 0, 0, 0))


def _troubles(facts: Facts, shown: Shown) -> Iterator[RenderableType]:
    told = [Text(note, "yellow", no_wrap=True, overflow="ellipsis") for note in shown.notes]
    told += [Text(each, BAD, no_wrap=True, overflow="ellipsis") for each in facts.unreadable[:2]]
    for condition in facts.agent.status.conditions if facts.agent else ():
        if condition.type in {"Ready", "SpecHonoured"} and condition.status == "False":
            told.append(Text(f"{condition.type}: {condition.message}", BAD, no_wrap=True, overflow="ellipsis"))
    if told:
        yield Padding(Group(*told), (1, 0, 0, 0))


def _to_try(shown: Shown) -> RenderableType:
    lines = []
    for typed, meaning in to_try(shown.name, shown.kubeconfig, shown.kubectl):
        line = Text(typed, no_wrap=True, overflow="ignore")
        lines.append(line.append(f"  # {meaning}", DIM) if meaning else line)
    return Group("", Rule("in another terminal; Ctrl-C here ends everything", style=DIM, align="left"), *lines)
