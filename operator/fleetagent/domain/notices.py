"""What people outside are told of an alert: when it is news once more, in which words, and for how long it is tried."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from urllib.parse import quote

from fleetagent.domain.records import AgentKey
from fleetagent.domain.text import neutral


class NoticeKind(StrEnum):
    """What has happened to the alert."""

    NEW = "new"
    ESCALATED = "escalated"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class Tone(StrEnum):
    """How loud a message is."""

    CALM = "calm"
    GOOD = "good"
    WARNING = "warning"
    ALARM = "alarm"


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened to one alert, with the words of that moment."""

    id: int
    alert_id: int
    kind: NoticeKind
    run_id: int
    """0: by code, between runs."""
    code: str
    severity: str
    message: str
    remark: str | None
    """A person's comment, or why it is told again."""
    since: datetime
    """When the alert was raised."""
    at: datetime
    taken_by: frozenset[str] = frozenset()
    """Receivers that have it already."""


@dataclass(frozen=True, slots=True)
class Words:
    """A message as plain text."""

    title: str
    body: str
    tone: Tone


SEVERITIES = ("info", "warning", "critical")

SAID_AGAIN_AFTER = timedelta(hours=1)
"""An alert whose words change all the time is told once an hour at most; one that nobody acknowledges, too, once."""

REMINDED_EVERY = timedelta(hours=24)
"""After that first reminder."""

GIVEN_UP_AFTER = timedelta(hours=4)

TRIED_AGAIN = timedelta(seconds=15), timedelta(minutes=15)
"""At least and at most between two attempts."""

MOST_SINGLY = 3
"""More than so many that wait together become one message."""

MOST_IN_A_DIGEST = 8
MESSAGES_AT_ONCE, SECONDS_A_MESSAGE = 8, 60.0
"""What one receiver is sent for one agent: so many at once, then one in this time, which tells of all that wait."""

LONGEST_MESSAGE, LONGEST_REMARK, LONGEST_LINE = 500, 300, 140

_FIGURES = re.compile(r"[\d.,:%/-]*\d[\d.,:%/-]*")


def is_graver(severity: str, before: str) -> bool:
    """Whether the severity was raised."""
    return severity in SEVERITIES and before in SEVERITIES and SEVERITIES.index(severity) > SEVERITIES.index(before)


def says_more(message: str, before: str) -> bool:
    """Whether the words differ by more than their figures, which are others at each look."""
    return _FIGURES.sub("#", message) != _FIGURES.sub("#", before)


def again_in(notice: Notice, now: datetime) -> timedelta:
    """The older it is, the more seldom it is tried."""
    least, most = TRIED_AGAIN
    return min(max((now - notice.at) / 2, least), most)


def is_hopeless(notice: Notice, now: datetime) -> bool:
    """Whether it was tried for long enough."""
    return now - notice.at >= GIVEN_UP_AFTER


def batches(waiting: Sequence[Notice]) -> tuple[tuple[Notice, ...], ...]:
    """Few go one by one, many as one message: nobody reads twenty."""
    return tuple((n,) for n in waiting) if len(waiting) <= MOST_SINGLY else (tuple(waiting),)


def words_of(notices: Sequence[Notice], key: AgentKey, web_url: str | None) -> Words:
    """One message for these, oldest first."""
    return _single(notices[0], key, web_url) if len(notices) == 1 else _digest(notices, key, web_url)


def _single(notice: Notice, key: AgentKey, web_url: str | None) -> Words:
    lines = [_said(notice.message, LONGEST_MESSAGE)]
    if notice.remark:
        because = "Comment" if notice.kind is NoticeKind.ACKNOWLEDGED else "Told again"
        lines.append(f"{because}: {_said(notice.remark, LONGEST_REMARK)}")
    run = f", run {notice.run_id}" if notice.run_id else ""
    lines.append(f"Since {notice.since:%Y-%m-%d %H:%M} UTC{run}")
    lines += _page(key, web_url)
    if notice.kind in {NoticeKind.NEW, NoticeKind.ESCALATED}:
        how = f"kubectl -n {key.namespace} annotate --overwrite fleetagent {key.name}"
        lines.append(f"Acknowledge: {how} fleetagent.dev/acknowledge=alert-{notice.alert_id}")
    return Words(f"{_headline(notice)}, FleetAgent {key}", "\n".join(lines), _tone(notice))


def _digest(notices: Sequence[Notice], key: AgentKey, web_url: str | None) -> Words:
    shown = notices[:MOST_IN_A_DIGEST]
    lines = [f"{_headline(n)}: {_said(n.message, LONGEST_LINE)}" for n in shown]
    if more := len(notices) - len(shown):
        lines.append(f"and {more} more")
    lines += _page(key, web_url)
    title = f"{_headline(notices[0])} and {len(notices) - 1} more, FleetAgent {key}"
    return Words(title, "\n".join(lines), max((_tone(n) for n in notices), key=list(Tone).index))


def _page(key: AgentKey, web_url: str | None) -> list[str]:
    return [] if web_url is None else [f"Page: {web_url}/agents/{quote(key.namespace)}/{quote(key.name)}/alerts"]


def a_test(key: AgentKey) -> Words:
    """What a person sends to see that it arrives."""
    return Words(f"Test, FleetAgent {key}", "A test: alerts of this agent arrive here. Nothing is wrong.", Tone.CALM)


def _headline(notice: Notice) -> str:
    about = f"alert-{notice.alert_id} ({_said(notice.code, 40)})"
    match notice.kind:
        case NoticeKind.NEW | NoticeKind.ESCALATED:
            return f"{notice.kind.capitalize()} {_said(notice.severity, 20)} {about}"
        case NoticeKind.ACKNOWLEDGED | NoticeKind.RESOLVED:
            return f"{notice.kind.capitalize()} {about}"


def _tone(notice: Notice) -> Tone:
    match notice.kind:
        case NoticeKind.RESOLVED:
            return Tone.GOOD
        case NoticeKind.ACKNOWLEDGED:
            return Tone.CALM
        case _:
            return {"info": Tone.CALM, "critical": Tone.ALARM}.get(notice.severity, Tone.WARNING)


def _said(text: str, limit: int) -> str:
    """Somebody's words, in which no receiver reads a mention of people, a tag or a link's markup."""
    return neutral(text, limit).replace("@", "\uff20")
