"""Changes of conditions → what people should hear of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fleetagent.domain.resource import Condition
from fleetagent.domain.status import NEEDED


@dataclass(frozen=True, slots=True)
class News:
    """A change of conditions that people should hear of: an Event of kind Normal or Warning."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


TOLD = NEEDED | {"SpecHonoured", "WithinBudget", "CreditLasts", "SchemaCurrent", "AlertsDelivered"}
"""Conditions whose loss is news. OnTarget comes and goes with the day's work; Suspended is what somebody asked for."""


def news(old: Iterable[Condition], new: Iterable[Condition]) -> tuple[News, ...]:
    """What has become False or has another cause than before, and what is well again.

    Ready tells only what no other condition tells. A mere change of words is no news.
    """
    before = {c.type: c for c in old}
    told = [n for c in new if c.type in TOLD and (n := _told(before.get(c.type), c))]
    causes = {c.reason for c in new if c.type in TOLD and c.status == "False"}
    causes |= {c.reason for c in before.values() if c.type in TOLD and c.status == "False"}
    for ready in (c for c in new if c.type == "Ready"):
        was = before.get("Ready")
        cause = was if ready.status == "True" else ready
        if cause is not None and cause.reason not in causes and (n := _told(was, ready)):
            told.append(n)
    told += [n for c in new if c.type == "ControllerDeciding" and (n := _handed_over(before.get(c.type), c))]
    return tuple(told)


def _handed_over(was: Condition | None, now: Condition) -> News | None:
    """Here it is the True that people should hear of."""
    had = was is not None and was.status == "True"
    if now.status == "True" and not had:
        return News("Warning", now.reason, f"The controller has taken over: {now.message}")
    if now.status == "False" and had:
        return News("Normal", now.reason, f"The controller has given back: {now.message}")
    return None


def _told(was: Condition | None, now: Condition) -> News | None:
    if now.status == "False" and (was is None or was.status != "False" or was.reason != now.reason):
        kind: Literal["Normal", "Warning"] = "Normal" if now.reason == "Suspended" else "Warning"
        return News(kind, now.reason, f"{now.type} is False: {now.message}")
    if now.status == "True" and was is not None and was.status == "False":
        return News("Normal", now.reason, f"{now.type} again: {now.message}")
    return None
