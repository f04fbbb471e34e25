"""What must hold after a crash: market, ledger, triggers, wakes, runs and money agree."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from support.crash.scenes import ASKED, DUE, LATER, Scene
from support.engine import prefix_of
from support.manifests import Json
from support.servers import Market

ENDED = {"gone", "failed"}
NEVER = "never appeared on the market"
CENT_OF_A_CENT = 1e-4
SECOND_H = 1 / 3600


@dataclass(frozen=True)
class Books:
    """Everything that was written down, by us and by the market."""

    machines: list[Json]
    creates: int
    tables: Mapping[str, list[dict[str, Any]]]
    told: Json
    """What the process that took over said at its end."""

    @classmethod
    def read(cls, url: str, market: Market, folder: Path) -> "Books":
        names = ("agents", "runs", "actions", "instances", "wakes", "triggers", "spend", "hosts", "alerts")
        with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
            tables = {name: list(connection.execute(f"SELECT * FROM {name}")) for name in names}  # noqa: S608
        state = market.get("state")
        told = json.loads((folder / "take_over.json").read_text())
        return cls(state["machines"], state["calls"]["create"], tables, told)

    def __getitem__(self, table: str) -> list[dict[str, Any]]:
        return self.tables[table]

    @property
    def finished(self) -> set[int]:
        """The runs that came to their end."""
        return {run["run_id"] for run in self["runs"] if run["state"] == "finished"}


def faults_in(scene: Scene, books: Books, ids: Mapping[str, str]) -> list[str]:
    """Every sentence is a broken promise."""
    found = [*_machines(scene, books), *_money(books), *_runs(books), *_errors(books)]
    if scene.ends:
        return [*found, *_ended(books)]
    return [*found, *_called_for(scene, books), *_further(books), *_of_this_scene(scene, books, ids)]


def _machines(scene: Scene, books: Books) -> Iterator[str]:
    """At most one machine for each intent, and the same machines in ledger and market."""
    intents = {a["label"] for a in books["actions"] if a["kind"] == "launch" and a["state"] != "refused"}
    given = {machine.label for machine in scene.machines}
    labels = Counter(machine["label"] for machine in books.machines)
    for label, count in labels.items():
        if count > 1:
            yield f"{count} machines for the intent {label}"
        if label not in intents | given:
            yield f"a machine without an intent: {label}"
    if books.creates > len(intents):
        yield f"{books.creates} creates for {len(intents)} intents"
    live = {(m["label"], str(m["id"])) for m in books.machines if m["live"] and m["label"].startswith(prefix_of())}
    held = {(i["label"], i["provider_id"]) for i in books["instances"] if i["phase"] not in ENDED}
    if live != held:
        yield f"the market has {sorted(live - held)} that the ledger has not, and lacks {sorted(held - live)}"
    unsettled = [a["state"] for a in books["actions"] if a["state"] in {"intended", "unknown"}]
    if unsettled:
        yield f"actions that were never settled: {unsettled}"


def _money(books: Books) -> Iterator[str]:
    """What was booked is what the machines cost for the time that they were held for live."""
    booked = sum(float(row["usd"]) for row in books["spend"] if row["kind"] == "fleet")
    if any(float(row["usd"]) < -CENT_OF_A_CENT for row in books["spend"]):
        yield f"less than nothing was spent: {books['spend']}"
    owed = per_hour = 0.0
    began = books["wakes"][0]["created_at"]
    for row in books["instances"]:
        if row["failure"] == NEVER:
            continue
        since = row["requested_at"] if row["action_id"] is not None else began
        owed += float(row["usd_per_hour"]) * (row["billed_until"] - since).total_seconds() * SECOND_H
        per_hour += float(row["usd_per_hour"])
    if abs(booked - owed) > 0.02 * owed + CENT_OF_A_CENT + per_hour * 60 * SECOND_H:
        yield f"{booked:.4f} USD are booked and {owed:.4f} owed"


def _runs(books: Books) -> Iterator[str]:
    numbers = sorted(run["run_id"] for run in books["runs"])
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"run numbers {numbers}"
    if books["agents"][0]["last_run_id"] != (numbers[-1] if numbers else 0):
        yield "the counter is not the last run's number"
    begun = [run["started_at"] for run in sorted(books["runs"], key=lambda run: int(run["run_id"]))]
    if begun != sorted(begun):
        yield "a later run began earlier"
    open_runs = [run["run_id"] for run in books["runs"] if run["state"] == "running"]
    if open_runs:
        yield f"runs that never ended: {open_runs}"


def _errors(books: Books) -> Iterator[str]:
    yield from (f"the process that took over says: {said[-800:]}" for said in books.told["errors"])


def _called_for(scene: Scene, books: Books) -> Iterator[str]:
    """Each trigger and each wake was served by one run that came to its end: none lost, none twice."""
    for row in books["triggers"]:
        if row["state"] != "processed" or row["claimed_by_run"] not in books.finished:
            yield f"trigger {row['kind']} {row['value']} is {row['state']}, claimed by {row['claimed_by_run']}"
    served = Counter((row["kind"], row["value"]) for row in books["triggers"])
    yield from (f"{what} was served {count} times" for what, count in served.items() if count > 1)
    for kind, value in (("Request", "first"), ("Request", "further"), ("Event", "before")):
        if kind == "Request" and value == "first" and "first" not in _requests(books):
            continue
        if served[kind, value] != 1:
            yield f"{kind} {value!r} was served {served[kind, value]} times"
    of_itself = [(kind, value) for kind, value in served if kind in {"Schedule", "SpecChange"}]
    if [kind for kind, _ in of_itself] != [scene.due]:
        yield f"of itself only {scene.due} was due, served were {of_itself}"
    wakes = {reason: [w for w in books["wakes"] if w["reason"] == reason] for reason in (DUE, LATER, ASKED)}
    if [w["state"] for w in wakes[LATER]] != ["pending"]:
        yield f"the wake for later is {wakes[LATER]}"
    for row in wakes[DUE] + wakes[ASKED]:
        if row["state"] != "processed" or row["claimed_by_run"] not in books.finished:
            yield f"the wake {row['reason']!r} is {row['state']}, claimed by {row['claimed_by_run']}"
    if len(wakes[DUE]) != 1 or len(wakes[ASKED]) > 1:
        yield f"{len(wakes[DUE])} and {len(wakes[ASKED])} wakes"


def _requests(books: Books) -> set[str]:
    return {row["value"] for row in books["triggers"] if row["kind"] == "Request"}


def _further(books: Books) -> Iterator[str]:
    """A run that a person asked for afterwards came to a good end."""
    last = next((r for r in reversed(books["runs"]) if "Request" in r["triggers"] and r["state"] == "finished"), None)
    if last is None or last["outcome"] in {"Failed", "ContextFull", "NoProgress"}:
        yield f"the further run: {last and (last['outcome'], last['error'])}"


def _of_this_scene(scene: Scene, books: Books, ids: Mapping[str, str]) -> Iterator[str]:
    """What the story itself is about."""
    if "annotations" in scene.metadata and "first" not in _requests(books):
        yield "the request was lost"
    if scene.waits:
        (action,) = (a for a in books["actions"] if a["id"] == 1)
        # The process may have died between the intent and its call: nobody knows, so it is not made again.
        never = [i for i in books["instances"] if i["action_id"] == 1 and i["failure"] == NEVER]
        made = [m for m in books.machines if m["label"] == action["label"]]
        if action["state"] != "done" and (made or not never):
            yield f"what was approved is {action['state']}"
        called = [t["value"] for t in books["triggers"] if t["kind"] == "Approval"]
        if len(called) != 1:
            yield f"approvals called for {called}"
    if "stuck" in ids:
        stuck = next(i for i in books["instances"] if i["provider_id"] == ids["stuck"])
        if stuck["phase"] not in ENDED:
            yield f"the overdue machine is {stuck['phase']}"
        told = [t["value"] for t in books["triggers"] if t["kind"] == "Event" and stuck["label"] in t["value"]]
        if len(told) != 1:
            yield f"the agent was told {len(told)} times that the overdue machine was given up: {told}"
        failures = [h["failures"] for h in books["hosts"] if h["machine_id"] == stuck["machine_id"]]
        if failures != [1]:
            yield f"one failure of the host counts as {failures}"


def _ended(books: Books) -> Iterator[str]:
    if live := [m["label"] for m in books.machines if m["live"]]:
        yield f"machines outlive their resource: {live}"
    if books["agents"][0]["deleted_at"] is None:
        yield "the row does not say that the resource is gone"
    waiting = [row for table in ("wakes", "triggers") for row in books[table] if row["state"] == "pending"]
    if waiting:
        yield f"somebody is still to be called for it: {waiting}"
