"""An agent's state in words, from what its resource says: the most pressing first."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fleetagent.domain.resource import Condition, FleetAgent, Mode, is_well
from fleetagent.entrypoints.web.page.words import plural

Tone = Literal["good", "warn", "bad", "busy", "plain"]


@dataclass(frozen=True, slots=True)
class State:
    """One or two words, a tone for their colour, and a sentence."""

    word: str
    tone: Tone
    sentence: str


GONE = State("deleted", "plain", "the resource is gone; what it did stays readable until it is pruned")


def state_of(agent: FleetAgent, now: datetime) -> State:
    """What people should know first."""
    return next(found for look in _LOOKS if (found := look(agent, now)) is not None)


def _held_by_its_owner(agent: FleetAgent, _: datetime) -> State | None:
    if agent.metadata.deletion_timestamp is not None:
        return State("being deleted", "warn", "the resource is being deleted: its machines are ended first")
    if agent.spec.mode is Mode.SUSPENDED:
        return State("suspended", "warn", "spec.mode is Suspended: no runs; machines are left alone")
    return None


def _in_trouble(agent: FleetAgent, _: datetime) -> State | None:
    for kind, word in (("Ready", "not ready"), ("WithinBudget", "over budget"), ("CreditLasts", "credit low")):
        if (found := _condition(agent, kind)) is not None and found.status == "False":
            return State(word, "bad", f"{found.reason}: {found.message}")
    return None


def _held_back(agent: FleetAgent, now: datetime) -> State | None:
    held = _condition(agent, "Suspended")
    if held is not None and held.reason == "InstallationStopped":
        return State("stopped", "warn", held.message)
    if waiting := agent.status.waiting_actions:
        return State("waits for you", "warn", f"{plural(len(waiting), 'action')} to approve or reject")
    if agent.spec.pause is not None and now < agent.spec.pause.until:
        return State("paused", "warn", "spec.pause" if held is None else held.message)
    return None


def _on_target(agent: FleetAgent, _: datetime) -> State:
    found = _condition(agent, "OnTarget")
    if found is None:
        return State("starting", "busy", "the operator has not looked at it yet")
    if found.status == "Unknown":
        return State("not known", "busy", found.message)
    if found.status == "False":
        return State("below target", "warn", found.message)
    return State("on target" if found.reason == "Reached" else "on the way", "good", found.message)


def _condition(agent: FleetAgent, kind: str) -> Condition | None:
    return next((c for c in agent.status.conditions if c.type == kind), None)


_LOOKS = (_held_by_its_owner, _in_trouble, _held_back, _on_target)
"""The first that has something to say says it; the last always has."""


def runbook_page(kind: str) -> str:
    """The runbook's file on a condition: FleetKnown has fleet-known.md."""
    if kind == "Stalled":  # says what Ready says, for tools that go by it
        kind = "Ready"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower() + ".md"


def tone_of(condition: Condition) -> Tone:
    """Whether this condition is as it should be."""
    well = is_well(condition.type, condition.status)
    if well is None:
        return "plain"
    if well:
        return "good"
    return "warn" if condition.type in {"OnTarget", "Suspended", "ControllerDeciding"} else "bad"
