"""The list of FleetAgents, and how a condition is shown: the status's own figures, as they stand there."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from fleetagent.domain.resource import is_well
from fleetagent.plugin.terminal import cell, table
from fleetagent.plugin.words import age, moment, until

Json = Mapping[str, Any]

GOOD, BAD, DIM = "green", "bold red", "dim"
COLUMNS = ("NAME", "MODE", "TARGET", "PROJECTED", "MACHINES", "USD/H", "TOKENS", "LAST RUN", "NEXT RUN", "READY", "AGE")
MORE = ("MEASURED", "BUDGET/H", "USD TODAY", "ALERTS", "WAITING", "OUTCOME", "PAUSED UNTIL")
FIGURES = (
    "TARGET",
    "PROJECTED",
    "MACHINES",
    "USD/H",
    "TOKENS",
    "LAST RUN",
    "MEASURED",
    "BUDGET/H",
    "USD TODAY",
    "ALERTS",
)


def agents_picture(agents: Sequence[Json], now: datetime, *, wide: bool, everywhere: bool) -> RenderableType:
    """A row for each."""
    if not agents:
        return Text("no FleetAgents here" + ("" if everywhere else "; -A looks in all namespaces"))
    columns = (*(("NAMESPACE",) if everywhere else ()), *COLUMNS, *(MORE if wide else ()))
    return table(columns, (_row(a, now, wide=wide, everywhere=everywhere) for a in agents), right=FIGURES)


def _row(agent: Json, now: datetime, *, wide: bool, everywhere: bool) -> list[object]:
    meta, spec, status = agent["metadata"], agent["spec"], agent.get("status") or {}
    fleet, run = status.get("fleet") or {}, status.get("lastRun") or {}
    row = [
        meta["name"],
        spec.get("mode"),
        spec["target"]["proofsPerHour"],
        fleet.get("projectedProofsPerHour"),
        fleet.get("instances"),
        fleet.get("usdPerHour"),
        (status.get("session") or {}).get("contextTokens"),
        run.get("id"),
        until(status.get("nextRunAt"), now),
        truth(condition(status, "Ready")),
        age(meta.get("creationTimestamp"), now),
    ]
    if wide:
        row += [
            fleet.get("proofsPerHour"),
            spec["budget"]["fleetUsdPerHour"],
            (status.get("spend") or {}).get("fleetUsdToday"),
            status.get("openAlerts"),
            ", ".join(w["id"] for w in status.get("waitingActions") or ()) or None,
            run.get("outcome"),
            (pause_now(spec, now) or {}).get("until"),
        ]
    return [*([meta["namespace"]] if everywhere else []), *row]


def truth(condition: Json) -> Text:
    """Green where it is as it should be, red where it is not."""
    status = condition.get("status")
    well = is_well(condition["type"], status)
    return cell(status, "yellow" if well is None else GOOD if well else BAD)


def condition(status: Json, kind: str) -> Json:
    """One condition of a status; empty but for its name while it is not there."""
    return next((c for c in status.get("conditions") or () if c["type"] == kind), {"type": kind})


def pause_now(spec: Json, now: datetime) -> Json | None:
    """The pause that holds now."""
    pause = spec.get("pause")
    end = moment(pause.get("until")) if pause else None
    return pause if end is not None and end > now else None
