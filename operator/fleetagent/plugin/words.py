"""How the plugin writes times and figures: the status's own figures, never rounded again."""

from datetime import datetime, timedelta

from fleetagent.plugin.terminal import NOTHING


def span(length: timedelta) -> str:
    """`42s`, `3m7s`, `2h5m`, `3d4h`, as kubectl writes an age; what lies behind zero counts as zero."""
    seconds = max(0, int(length.total_seconds()))
    for above, size, unit, below, rest in ((172_800, 86_400, "d", 3600, "h"), (7200, 3600, "h", 60, "m")):
        if seconds >= above:
            more = seconds % size // below
            return f"{seconds // size}{unit}" + (f"{more}{rest}" if more else "")
    if seconds >= 120:
        return f"{seconds // 60}m" + (f"{seconds % 60}s" if seconds % 60 else "")
    return f"{seconds}s"


def moment(text: object) -> datetime | None:
    """RFC 3339 as Kubernetes and our API write it; None where there is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def ago(text: object, now: datetime) -> str:
    """`42s ago`."""
    at = moment(text)
    return NOTHING if at is None else f"{span(now - at)} ago"


def age(text: object, now: datetime) -> str:
    """`42s`."""
    at = moment(text)
    return NOTHING if at is None else span(now - at)


def until(text: object, now: datetime) -> str:
    """`in 42s`, or for how long it has been due."""
    at = moment(text)
    if at is None:
        return NOTHING
    return f"in {span(at - now)}" if at > now else f"due for {span(now - at)}"


def count(number: object) -> str:
    """With separators: 8,123."""
    return f"{number:,}" if isinstance(number, int | float) else NOTHING


def figure(value: object) -> str:
    """As it stands; a dash for what is not there."""
    return NOTHING if value is None else str(value)


def of(value: object, limit: object) -> str:
    """`3.42 of 4.00`; without a limit the value alone."""
    return figure(value) if limit is None else f"{figure(value)} of {limit}"


def counts_of(number: object, limit: object) -> str:
    """`8,123 of 30,000`."""
    return count(number) if limit is None else f"{count(number)} of {count(limit)}"


def plural(number: int, one: str) -> str:
    """`1 machine`, `2 machines`."""
    return f"{number} {one}" + ("" if number == 1 else "s")
