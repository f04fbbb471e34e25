"""Pictures of what our API tells: runs, machines, spend, alerts."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fleetagent.plugin.pictures import BAD, DIM, GOOD, Json
from fleetagent.plugin.terminal import NOTHING, cell, line, table
from fleetagent.plugin.transcript import compactions_picture, transcript_picture
from fleetagent.plugin.words import age, count, counts_of, figure, moment, of, span

OUTCOMES = {"Acted": GOOD, "Held": "cyan", "Skipped": DIM, "Waiting": "yellow"}
PHASES = {"proving": GOOD, "stopping": DIM, "gone": DIM, "failed": BAD}
STATES = {"open": "yellow", "acknowledged": "", "resolved": DIM}
GONE = "the resource is gone: there is no target, no budget and no status any more"


def runs_picture(runs: Sequence[Json], now: datetime, *, wide: bool) -> RenderableType:
    """A row for each."""
    if not runs:
        return Text("no runs")
    columns = ["RUN", "AGO", "TRIGGERS", "OUTCOME", "CALLS", "TOKENS IN", "USD", "ACTIONS", "REFUSED"]
    more = ["OUT", "CACHED", "LASTED", "SESSION", "QUIET"] if wide else []
    rows = []
    for run in runs:
        row = [
            run["runID"],
            age(run["startedAt"], now),
            ", ".join(run["triggers"]),
            _outcome(run),
            run["modelCalls"],
            run["tokensIn"],
            run["usd"],
            run["actions"],
            run["refusals"],
        ]
        if wide:
            row += [
                run["tokensOut"],
                run["tokensCached"],
                _lasted(run),
                run["sessionID"],
                "yes" if run["quiet"] else "",
            ]
        rows.append([*row, run.get("summary") or run.get("error") or run.get("reason")])
    right = {*columns, *more} - {"TRIGGERS", "OUTCOME", "QUIET"}
    return table([*columns, *more, "SUMMARY"], rows, right=right)


def run_picture(found: Json, now: datetime) -> RenderableType:
    """All that belongs to one run."""
    run = found["run"]
    facts = Table.grid(padding=(0, 3, 0, 0))
    facts.add_column(style=DIM, no_wrap=True)
    facts.add_column(overflow="fold")
    tokens = f"{count(run['tokensIn'])} in ({count(run['tokensCached'])} cached), {count(run['tokensOut'])} out"
    estimated = ", some of it estimated" if run["tokensEstimated"] else ""
    for name, said in (
        ("triggers", ", ".join(run["triggers"])),
        ("started", f"{run['startedAt']}, {age(run['startedAt'], now)} ago, lasted {_lasted(run)}"),
        ("summary", run.get("summary")),
        ("reason", run.get("reason")),
        ("error", run.get("error")),
        ("model", f"{run['modelCalls']} calls, {tokens}{estimated}, {run['usd']} USD"),
        ("verdict", _verdict(found)),
        ("session", run["sessionID"]),
    ):
        if said is not None:
            facts.add_row(name, Text(line(said)))
    parts: list[RenderableType] = [Text.assemble((line(f"run {run['runID']}"), "bold"), "  ", _outcome(run)), facts]
    if found["actions"]:
        parts += [Text(""), actions_picture(found["actions"])]
    if found["compactions"]:
        parts += [Text(""), compactions_picture(found["compactions"])]
    if found["messages"]:
        parts += [Text(""), transcript_picture(found["messages"])]
    return Group(*parts)


def actions_picture(actions: Sequence[Json]) -> RenderableType:
    """A row for each, with what refused it."""
    rows = []
    for each in actions:
        why = each.get("refusal") or each.get("error") or (each.get("args") or {}).get("reason")
        state = each.get("refusalCode") or each["state"]
        style = BAD if each.get("refusalCode") or each.get("error") else ""
        price = figure(each.get("usdPerHour"))
        machine = each.get("what") or each.get("providerRef") or each.get("label")
        rows.append([f"action-{each['id']}", each["kind"], each["by"], cell(state, style), machine, price, why])
    return table(("ACTION", "KIND", "BY", "STATE", "MACHINE", "USD/H", "WHY"), rows, right=("USD/H",))


def fleet_picture(machines: Sequence[Json], agent: Json, now: datetime, *, wide: bool) -> RenderableType:
    """The status's own sums, then a row for each machine; wide: with the moments of its life."""
    sums = _sums(agent)
    if not machines:
        return Group(sums, Text("no machines"))
    columns = ["MACHINE", "MARKET ID", "GPU", "PHASE", "FOR", "PROOFS/H", "USD/H", "HOST"]
    rows = [_machine(each, now, wide=wide) for each in machines]
    right = ("FOR", "PROOFS/H", "USD/H")
    return Group(sums, Text(""), table([*columns, "TIMELINE" if wide else "FAILURE"], rows, right=right))


def _sums(agent: Json) -> Text:
    if (spec := agent.get("spec")) is None:
        return Text(GONE, DIM)
    fleet = (agent.get("status") or {}).get("fleet") or {}
    measured, projected = figure(fleet.get("proofsPerHour")), figure(fleet.get("projectedProofsPerHour"))
    bill = of(fleet.get("usdPerHour"), spec["budget"]["fleetUsdPerHour"])
    target = spec["target"]["proofsPerHour"]
    return Text(line(f"{measured} proofs/h measured, {projected} projected, target {target}; {bill} USD/h"))


def _machine(each: Json, now: datetime, *, wide: bool) -> list[object]:
    measured = each.get("measuredRate")
    rate = str(measured) if measured is not None else f"~{each['expectedRate']}"
    life = " ".join(f"{part['phase']}@{_clock(part['at'])}" for part in each["timeline"])
    return [
        f"m{each['number']}",
        each.get("providerID"),
        f"{each['numGpus']}x {each['gpuName']}",
        cell(each["phase"], PHASES.get(each["phase"], "yellow")),
        age(each["phaseSince"], now),
        rate,
        each["usdPerHour"],
        each["hostID"],
        life if wide else each.get("failure"),
    ]


def spend_picture(days: Sequence[Json], agent: Json) -> RenderableType:
    """A row for each UTC day, and their sum; above them the day's budget, as the status has it."""
    rows = [[day["day"], day["fleetUsd"], day["modelUsd"], count(day["modelTokens"])] for day in days]
    sums = [str(sum((Decimal(day[name]) for day in days), Decimal(0))) for name in ("fleetUsd", "modelUsd")]
    rows.append([Text("together", "bold"), *sums, count(sum(int(day["modelTokens"]) for day in days))])
    shown = table(
        ("DAY", "FLEET USD", "MODEL USD", "MODEL TOKENS"), rows, right=("FLEET USD", "MODEL USD", "MODEL TOKENS")
    )
    return Group(_today(agent), Text(""), shown)


def _today(agent: Json) -> Text:
    if (spec := agent.get("spec")) is None:
        return Text(GONE, DIM)
    budget, spend = spec["budget"], (agent.get("status") or {}).get("spend") or {}
    dollars = of(spend.get("fleetUsdToday"), budget.get("fleetUsdPerDay"))
    tokens = counts_of(spend.get("modelTokensToday"), budget.get("modelTokensPerDay"))
    return Text(line(f"today: {dollars} USD for machines, {tokens} model tokens"))


def alerts_picture(alerts: Sequence[Json], now: datetime) -> RenderableType:
    """A row for each."""
    if not alerts:
        return Text("no alerts")
    rows = []
    for each in alerts:
        comment = f" ({each['comment']})" if each.get("comment") else ""
        state = cell(each["state"], STATES.get(each["state"], ""))
        since = age(each["createdAt"], now)
        rows.append(
            [
                f"alert-{each['id']}",
                each["severity"],
                each["code"],
                state,
                since,
                each["runID"],
                each["message"] + comment,
            ]
        )
    return table(("ALERT", "SEVERITY", "CODE", "STATE", "AGO", "RUN", "MESSAGE"), rows, right=("AGO", "RUN"))


def _outcome(run: Json) -> Text:
    word = run.get("outcome") or ("running" if run["state"] == "running" else run["state"])
    return cell(word, OUTCOMES.get(word, "yellow" if word == "running" else BAD))


def _lasted(run: Json) -> str:
    begun, ended = moment(run["startedAt"]), moment(run.get("finishedAt"))
    return NOTHING if begun is None or ended is None else span(ended - begun)


def _verdict(found: Json) -> str | None:
    ledger, said = found.get("verdict"), found.get("verdictSaid")
    if ledger is None and said is None:
        return None
    return f"by the ledger {_words(ledger)}; the model said {_words(said)}"


def _words(verdict: Json | None) -> str:
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in verdict.items()) if verdict else "nothing"


def _clock(at: object) -> str:
    when = moment(at)
    return NOTHING if when is None else f"{when:%m-%dT%H:%M:%S}"
