"""The verbs: patches of the FleetAgent in the user's name, and nobody's unheard word is lost by them."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from fleetagent.domain.patches import Patch, Stored, Verb, read_verb
from fleetagent.domain.resource import parse_duration
from fleetagent.domain.said import not_served_yet
from fleetagent.errors import BadRequest, Conflict, TryLater
from fleetagent.plugin.person import Person

ONE_AT_A_TIME = {"message": "message", "acknowledge": "acknowledgement"}
"""Their annotation holds one word: a new one would take the place of one that nobody has heard."""
LOOKS_AGAIN_SECONDS = 0.25
MOST_CONFLICTS = 50


def trigger(person: Person) -> int:
    """A run as soon as the current one is over."""
    return _say(person, "request", {}, "a run is asked for")


def reset(person: Person) -> int:
    """A new session; the old one is kept in the archive."""
    return _say(person, "reset", {}, "a new session is asked for; the old one is archived")


def message(person: Person) -> int:
    """Words for the model, verbatim."""
    text = sys.stdin.buffer.read().decode(errors="replace") if person.args.text == "-" else person.args.text
    return _say(person, "message", {"text": text}, "said; the agent reads it in its next run")


def acknowledge(person: Person) -> int:
    """An alert is known; perhaps with a comment for the model."""
    args = person.args
    done = f"alert-{args.alert.removeprefix('alert-')} is acknowledged"
    return _say(person, "acknowledge", {"alert": args.alert, "comment": args.comment}, done)


def approve(person: Person) -> int:
    """What waits may happen, once it was checked again."""
    return _decide(person, "approve", "approved; it is checked once more, then done")


def reject(person: Person) -> int:
    """What waits shall not happen."""
    return _decide(person, "reject", "rejected; the agent is told in its next run")


def pause(person: Person) -> int:
    """No launches, no stops, or neither, until a moment."""
    args = person.args
    directions = [word for word, wanted in (("Up", args.up), ("Down", args.down)) if wanted] or ["Up"]
    body = {"for": args.lasting, "until": args.until, "reason": args.reason, "directions": directions}
    what = {"Up": "launches", "Down": "stops"}
    return _say(person, "pause", body, f"{' and '.join(what[d] for d in directions)} are refused until {{until}}")


def resume(person: Person) -> int:
    """Nothing is paused any more."""
    return _say(person, "resume", {}, "is not paused")


def _decide(person: Person, name: str, done: str) -> int:
    actions = [each for word in person.args.actions for each in word.replace(",", " ").split()]
    waiting = person.kubernetes.agent(person.agent).get("status", {}).get("waitingActions") or ()
    known = {str(action["id"]) for action in waiting}
    if unknown := [a for a in actions if f"action-{a.lower().removeprefix('action-')}" not in known]:
        person.note(f"the status knows no {', '.join(unknown)} that waits; an Event says what became of it")
    return _say(person, name, {"actions": actions}, f"{', '.join(actions)} {done}")


def _say(person: Person, name: str, body: Mapping[str, Any], done: str) -> int:
    verb = read_verb(name, {field: value for field, value in body.items() if value is not None})
    change = _patched(person, name, verb)
    change.get("metadata", {}).pop("resourceVersion", None)
    if person.terminal.for_programs:
        person.terminal.give(change)
        return 0
    until = ((change.get("spec") or {}).get("pause") or {}).get("until", "")
    person.terminal.say(f"{person.agent}: {done.replace('{until}', until)}")
    return 0


def _patched(person: Person, name: str, verb: Verb) -> Patch:
    """The patch that went through: made anew from what stands for as long as others write in between."""
    deadline, told = time.monotonic() + _patience(person), False
    for _ in range(MOST_CONFLICTS):
        stored = person.kubernetes.agent(person.agent)
        while _unheard(person, name, stored):
            if time.monotonic() >= deadline:
                raise TryLater(_in_the_way(name, stored))
            if not told:
                person.note(f"the last {ONE_AT_A_TIME[name]} is not confirmed by the operator yet: waiting")
                told = True
            time.sleep(LOOKS_AGAIN_SECONDS)
            stored = person.kubernetes.agent(person.agent)
        change = verb.patch(stored, person.now())
        try:
            person.kubernetes.patch(person.agent, change)
        except Conflict:
            continue
        if name == "request" and stored["spec"].get("mode") == "Suspended":
            person.note("the mode is Suspended: it runs once the mode is another one")
        return change
    raise TryLater(f"{person.agent} is written to all the time; say it again in a moment")


def _patience(person: Person) -> float:
    try:
        return parse_duration(person.args.wait).total_seconds()
    except ValueError as error:
        raise BadRequest(f"--wait: {error}") from error


def _unheard(person: Person, name: str, stored: Stored) -> bool:
    return name in ONE_AT_A_TIME and not person.args.replace and not_served_yet(name, stored) is not None


def _in_the_way(name: str, stored: Stored) -> str:
    word, said = ONE_AT_A_TIME[name], not_served_yet(name, stored)
    return (
        f"the last {word} ({said!r}) is not confirmed by the operator: it may be thinking, or down; say it again "
        "later, or --replace that one, which the agent may then never hear"
    )
