"""Lines with which a test, or a person who tries things, tells the policy what to do.

They stand in an operator's message, behind `[sim]`:

    [sim] wake in 5                     schedule_next_check
    [sim] alert warning the pager test  raise_alert
    [sim] say anything                  these words become part of the final answer
    [sim] call NAME {"argument": 1}     any tool with any arguments
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.sim.model.conversation import json_object

_LINE = re.compile(r"\[sim\]\s*(\w+)\s+(.*?)\s*(?=\[sim\]|[\n\r]|$)")
_WAKE = re.compile(r"in (\d+)")
_CALL = re.compile(r"(\w+)\s+(\{.*\})")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that the policy wants to make."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Directives:
    """All that was asked for, in order."""

    calls: tuple[Wanted, ...] = ()
    words: tuple[str, ...] = ()


def directives_in(texts: Iterable[str]) -> Directives:
    """Those that are understood; other `[sim]` lines are repeated in the answer, so that a typo is seen."""
    calls: list[Wanted] = []
    words: list[str] = []
    for verb, quoted in (found for text in texts for found in _LINE.findall(text)):
        rest = quoted.rstrip("\"'”»") if verb != "call" else quoted
        call = _call(verb, rest)
        if call:
            calls.append(call)
        else:
            words.append(rest if verb == "say" else f"Not understood: {verb} {rest}")
    return Directives(tuple(calls), tuple(words))


def _call(verb: str, rest: str) -> Wanted | None:
    if verb == "wake" and (minutes := _WAKE.match(rest)):
        return Wanted("schedule_next_check", {"minutes": int(minutes[1]), "reason": "asked for by the operator"})
    if verb == "alert" and " " in rest:
        severity, message = rest.split(" ", 1)
        return Wanted("raise_alert", {"severity": severity, "message": message})
    if verb == "call" and (named := _CALL.match(rest)) and (arguments := json_object(named[2])) is not None:
        return Wanted(named[1], arguments)
    return None
