"""One FleetAgent on a screen, as the API server has it: the status's own figures, as they stand there."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fleetagent.domain.said import NAMES, not_served_yet
from fleetagent.plugin.pictures import BAD, DIM, Json, pause_now, truth
from fleetagent.plugin.terminal import NOTHING, line, table
from fleetagent.plugin.words import age, ago, count, counts_of, figure, moment, of, plural, until

SHORT_CHARS = 160
LATE_SECONDS = 120


def status_picture(agent: Json, now: datetime, *, wide: bool) -> RenderableType:
    """All that matters of one."""
    meta, spec, status = agent["metadata"], agent["spec"], agent.get("status") or {}
    title = Text(line(f"{meta['namespace']}/{meta['name']}"), "bold").append(f"  {line(spec.get('mode'))}", "not bold")
    if meta.get("deletionTimestamp"):
        title.append(f"  being deleted since {age(meta['deletionTimestamp'], now)}", BAD)
    facts = Table.grid(padding=(0, 3, 0, 0))
    facts.add_column(style=DIM, no_wrap=True)
    facts.add_column(overflow="fold")
    for name, said in (*_figures(spec, status, now), *_story(agent, spec, status, now)):
        facts.add_row(name, said if isinstance(said, Text) else Text(line(said)))
    parts: list[RenderableType] = [title, facts]
    if waiting := status.get("waitingActions"):
        parts += [Text(""), _waiting(waiting, now)]
    parts += [Text(""), _conditions(status.get("conditions") or (), now, wide=wide)]
    return Group(*parts)


def _figures(spec: Json, status: Json, now: datetime) -> Iterator[tuple[str, str | Text]]:
    fleet, spend, session = status.get("fleet") or {}, status.get("spend") or {}, status.get("session") or {}
    budget, target = spec["budget"], spec["target"]["proofsPerHour"]
    measured, projected = figure(fleet.get("proofsPerHour")), figure(fleet.get("projectedProofsPerHour"))
    yield "proofs/h", f"{measured} measured, {projected} projected, target {target}"
    yield "machines", _machines(fleet, now) if fleet else "not seen yet"
    hourly = of(fleet.get("usdPerHour"), budget["fleetUsdPerHour"])
    today = of(spend.get("fleetUsdToday"), budget.get("fleetUsdPerDay"))
    yield "USD", f"{hourly} per hour, {today} today"
    limit = (spec.get("context") or {}).get("tokenBudget")
    prompt = counts_of(session.get("contextTokens"), limit)
    estimates = (
        f"estimated {count(session.get('estimatedTokens'))}, the next one {count(session.get('nextPromptTokens'))}"
    )
    today = counts_of(spend.get("modelTokensToday"), budget.get("modelTokensPerDay"))
    yield "tokens", f"{prompt} in the last prompt by the backend's count ({estimates}), {today} today"
    if session:
        messages, cuts = (
            plural(session.get("messages") or 0, "message"),
            plural(session.get("compactions") or 0, "compaction"),
        )
        yield (
            "session",
            f"{session['id']}, since {age(session.get('startedAt'), now)}: {messages} in the prompt, {cuts}",
        )


def _machines(fleet: Json, now: datetime) -> str:
    proving, coming = figure(fleet.get("proving")), figure(fleet.get("onTheWay"))
    seen = ago(fleet.get("observedAt"), now)
    return f"{figure(fleet.get('instances'))}: {proving} proving, {coming} on the way; seen {seen}"


def _story(agent: Json, spec: Json, status: Json, now: datetime) -> Iterator[tuple[str, str | Text]]:
    yield "last run", _last_run(status.get("lastRun") or {}, now)
    yield "next run", _next_run(status.get("nextRunAt"), now)
    if (pause := pause_now(spec, now)) is not None:
        lasting = until(pause["until"], now).removeprefix("in ")
        told = (
            f"{', '.join(pause.get('directions') or ('Up',))} for {lasting}: {pause.get('reason') or 'no reason given'}"
        )
        yield "paused", Text(line(told), "yellow")
    for wake in status.get("pendingWakes") or ():
        why, run = wake.get("reason") or NOTHING, figure(wake.get("askedByRun"))
        yield "wake", f"{wake['id']} {until(wake['at'], now)}: {why} (run {run})"
    yield "alerts", Text(line(f"{status.get('openAlerts') or 0} open"), "yellow" if status.get("openAlerts") else "")
    if unheard := [name for name in NAMES if not_served_yet(name, agent) is not None]:
        yield "not served", Text(f"{', '.join(unheard)}: said, and not confirmed by the operator yet", "yellow")


def _last_run(run: Json, now: datetime) -> str:
    if not run:
        return "none yet"
    why = ", ".join(run.get("triggers") or ())
    ended = run.get("outcome") or ("goes on" if not run.get("finishedAt") else NOTHING)
    told = f": {run['summary']}" if run.get("summary") else ""
    return f"{run['id']} ({why}), {ago(run.get('startedAt'), now)}: {ended}{told}"


def _next_run(at: object, now: datetime) -> str | Text:
    due = moment(at)
    if due is None:
        return "not planned"
    late = (now - due).total_seconds() > LATE_SECONDS
    return Text(f"{until(at, now)}: does the operator run?", BAD) if late else until(at, now)


def _waiting(actions: Sequence[Json], now: datetime) -> Table:
    rows = []
    for each in actions:
        left = until(each["expiresAt"], now).removeprefix("in ")
        rows.append((each["id"], each["kind"], each.get("what"), each.get("usdPerHour"), left, each.get("reason")))
    return table(("WAITS", "KIND", "MACHINE", "USD/H", "FOR", "WHY"), rows, right=("USD/H",))


def _conditions(conditions: Sequence[Json], now: datetime, *, wide: bool) -> RenderableType:
    if not conditions:
        return Text("no conditions yet: does the operator run, and watch this namespace?", "yellow")
    columns = ("CONDITION", "STATUS", "REASON", "FOR", "MESSAGE")
    rows = []
    for each in conditions:
        text = line(each.get("message"))
        told = text if wide or len(text) <= SHORT_CHARS else f"{text[: SHORT_CHARS - 1]}…"
        rows.append((each["type"], truth(each), each.get("reason"), age(each.get("lastTransitionTime"), now), told))
    return table(columns, rows)
