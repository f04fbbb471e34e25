"""What a browser asks for in the query of an address, read with care: each refusal says what to write instead."""

from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.requests import Request

from fleetagent.domain.records import HIGHEST_ID
from fleetagent.errors import BadRequest

YEARS = range(2000, 3000)
"""A time near the end of what can be written would overflow where a little is added to it."""


def moment(request: Request, name: str) -> datetime | None:
    """A time; without a zone it is UTC, as the page's own fields say. None where nothing is asked."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
        read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"{name}: must be a time such as 2026-11-30T15:00, in UTC") from error
    if read.year not in YEARS:
        raise BadRequest(f"{name}: must be a time between {YEARS.start} and {YEARS.stop}")
    return read


def number(request: Request, name: str) -> int | None:
    """A whole number that a row may have; None where nothing is asked."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= HIGHEST_ID):
        raise BadRequest(f"{name}: must be a whole number")
    return int(text)


def word(request: Request, name: str, known: Iterable[str]) -> str | None:
    """One of the known words; None where nothing is asked."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    words = tuple(known)
    if text not in words:
        raise BadRequest(f"{name}: must be one of {', '.join(words)}")
    return text


def address(path: str, **asked: object) -> str:
    """The path with what is asked; ends so that one more `name=value` can follow."""
    given = {name: _written(value) for name, value in asked.items() if value not in {None, ""}}
    return f"{path}?{urlencode(given)}&" if given else f"{path}?"


def _written(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
