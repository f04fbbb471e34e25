"""The demo without a terminal: one line per change."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from fleetagent.dev import words
from fleetagent.dev.facts import Facts
from fleetagent.domain.resource import FleetAgent


def changes(before: Facts | None, now: Facts) -> Iterator[str]:
    """What is new since the last look."""
    yield from _unreadable(before, now)
    yield from _runs(before, now)
    yield from _machines(before, now)
    if (said := figures(now)) and (before is None or figures(before) != said):
        yield said
    yield from _agent(before.agent if before else None, now.agent, now.at)
    told = {a.id for a in before.ledger.alerts} if before and before.ledger else set()
    for alert in now.ledger.alerts if now.ledger else ():
        if alert.id not in told:
            yield f"alert-{alert.id} ({alert.severity}): {alert.message}"


def figures(facts: Facts) -> str:
    """Rate and money against what is wanted; empty while nothing is known of the fleet."""
    agent = facts.agent
    fleet = agent.status.fleet if agent else None
    if agent is None or fleet is None:
        return ""
    rates = f"{fleet.proofs_per_hour or 0:.0f} measured and {fleet.projected_proofs_per_hour or 0:.0f} projected"
    wanted, budget = agent.spec.target.proofs_per_hour, agent.spec.budget.fleet_usd_per_hour
    return (
        f"{fleet.proving or 0} proving, {fleet.on_the_way or 0} on the way: "
        f"{rates} of {wanted} proofs/h, {fleet.usd_per_hour or 0:.2f} of {budget:.2f} USD/h"
    )


def _unreadable(before: Facts | None, now: Facts) -> Iterator[str]:
    known = before.unreadable if before else ()
    yield from (each for each in now.unreadable if each not in known)
    if known and not now.unreadable:
        yield "everything can be read again"


def _runs(before: Facts | None, now: Facts) -> Iterator[str]:
    told = {(r.run_id, r.outcome, r.state) for r in before.ledger.runs} if before and before.ledger else set()
    for run in reversed(now.ledger.runs if now.ledger else ()):
        if run.state != "running" and (run.run_id, run.outcome, run.state) not in told:
            yield f"run {run.run_id} ({', '.join(run.triggers)}): {words.run_outcome(run)}: {words.run_story(run)}"


def _machines(before: Facts | None, now: Facts) -> Iterator[str]:
    known = {m.label: m for m in before.own_machines} if before else {}
    for machine in now.own_machines:
        old = known.pop(machine.label, None)
        if old is None or old.phase != machine.phase:
            rate = f", {machine.measured_rate:.0f} proofs/h" if machine.measured_rate is not None else ""
            yield f"machine {words.machine_name(machine)} ({words.gpu(machine)}) is {machine.phase}{rate}"
    if now.ledger is not None:
        for machine in known.values():
            yield f"machine {words.machine_name(machine)} is no more"


def _agent(before: FleetAgent | None, now: FleetAgent | None, at: datetime) -> Iterator[str]:
    if now is None:
        return
    known = {c.type: (c.status, c.reason) for c in before.status.conditions} if before else {}
    for condition in now.status.conditions:
        if known.get(condition.type) != (condition.status, condition.reason):
            yield f"{condition.type} is {condition.status} ({condition.reason}): {condition.message}"
    session, was = now.status.session, before.status.session if before else None
    if session is not None and (was is None or was.id != session.id):
        yield f"session {session.id} has begun"
    wakes = {w.id for w in before.status.pending_wakes} if before else set()
    for wake in now.status.pending_wakes:
        if wake.id not in wakes:
            yield f"wake {wake.id} {words.until(wake.at, at)}: {wake.reason or 'no reason given'}"


class Lines:
    """Prints what changes, with the time since everything is up."""

    def __init__(self, since: datetime) -> None:
        self._since = since
        self._before: Facts | None = None

    def show(self, facts: Facts, _left: timedelta | None) -> None:
        """Say what is new."""
        for line in changes(self._before, facts):
            self._say(line, facts.at)
        self._before = facts

    def note(self, text: str, at: datetime) -> None:
        """Say what has happened to the operator."""
        self._say(text, at)

    def close(self) -> None:
        """Nothing is held."""

    def _say(self, line: str, at: datetime) -> None:
        print(f"{words.span(at - self._since):>7}  {line}", flush=True)
