"""How the page writes figures and times. Nothing is rounded that the page does not also carry whole, in a `value`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

NOTHING = "\N{EN DASH}"

_HIDDEN = {
    **{code: f"[U+{code:04X}]" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"},
    **{
        code: f"[U+{code:04X}]"
        for code in (
            0x00AD,
            0x061C,
            0x200B,
            *range(0x200E, 0x2010),
            *range(0x2028, 0x202F),
            *range(0x2060, 0x2070),
            0xFEFF,
        )
    },
}
"""Controls, zero widths and what turns the direction of writing round: shown by their number, or a name could lie."""


def shown(value: object) -> object:
    """What a template prints for a value: a dash for none, and what would not be seen made visible."""
    if value is None:
        return NOTHING
    if isinstance(value, str) and not (value.isascii() and value.isprintable()):
        # Markup stays Markup: `translate` of a str subclass gives back a str, which would be escaped once more.
        return type(value)(str(value).translate(_HIDDEN))
    return value


def usd(amount: Decimal | str | float | None, decimals: int = 2) -> str:
    """`1,234.50`; what is not known is a dash."""
    return NOTHING if amount is None else f"{Decimal(str(amount)):,.{decimals}f}"


def count(number: float | Decimal | None, decimals: int = 0) -> str:
    """`12,345`; what is not known is a dash."""
    return NOTHING if number is None else f"{number:,.{decimals}f}"


def exact(number: Decimal | float) -> str:
    """All its digits and no more, for `<data value>`: `3.4213`, `410`."""
    return format(Decimal(str(number)).normalize(), "f")


def iso(moment: datetime) -> str:
    """As `<time datetime>` wants it, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def utc(moment: datetime) -> str:
    """`2026-11-30 15:26:16 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def field_time(moment: datetime | None) -> str:
    """As `<input type="datetime-local">` takes it; empty for none."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M}"


def span(length: timedelta | float) -> str:
    """`42 s`, `3 min`, `2 h 5 min`, `3 d 4 h`: two parts at most. static/page.js writes the same."""
    seconds = round(length.total_seconds() if isinstance(length, timedelta) else length)
    if seconds < 100:
        return f"{max(seconds, 0)} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def ago(moment: datetime, now: datetime) -> str:
    """`3 min ago`, `in 4 min`, `now`."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def share(part: Decimal | float | None, whole: Decimal | float | None) -> float:
    """How much of the whole, in percent, for a bar: 0 to 100."""
    if not part or not whole:
        return 0.0 if not part else 100.0
    return round(min(100.0, 100.0 * float(part) / float(whole)), 1)


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 alert`, `2 alerts`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


FILTERS: Mapping[str, object] = {
    "usd": usd,
    "count": count,
    "exact": exact,
    "iso": iso,
    "utc": utc,
    "field_time": field_time,
    "span": span,
    "ago": ago,
    "share": share,
    "plural": plural,
}
