"""Where a page ended, as text that nobody needs to understand."""

import base64
import binascii
import json
from collections.abc import Sequence

from fleetagent.domain.records import HIGHEST_ID
from fleetagent.errors import BadCursor

LONGEST_CHARS = 200


def cursor(of: str, place: Sequence[int | str]) -> str:
    """The place in the rows `of` which the next page begins behind."""
    return base64.urlsafe_b64encode(json.dumps([of, *place], separators=(",", ":")).encode()).decode().rstrip("=")


def place_in(of: str, text: str, *kinds: type) -> tuple[int | str, ...]:
    """The way back; `BadCursor` for whatever `cursor` has not made for these rows."""
    place = _read(text)
    fits = len(place) == 1 + len(kinds) and place[0] == of
    if not fits or any(type(part) is not kind for part, kind in zip(place[1:], kinds, strict=True)):
        raise no_cursor()
    if any(isinstance(part, int) and not 0 <= part <= HIGHEST_ID for part in place):
        raise no_cursor()
    return tuple(place[1:])


def key_in(of: str, text: str | None) -> int | None:
    """Of a place that is one number; None at the beginning."""
    return None if text is None else int(place_in(of, text, int)[0])


def _read(text: str) -> list[int | str]:
    if len(text) > LONGEST_CHARS or not text.isascii():
        raise no_cursor()
    try:
        read = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise no_cursor() from error
    if not isinstance(read, list):
        raise no_cursor()
    return read


def no_cursor() -> BadCursor:
    """What to raise for it, with the remedy."""
    return BadCursor("`after` is no cursor of this list: give the `next` of an earlier page of it, or leave it out")
