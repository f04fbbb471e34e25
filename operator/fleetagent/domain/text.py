"""The one border for text: what comes from outside is made harmless here before it is stored, sent or shown."""

import re
import unicodedata
from functools import lru_cache

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
"""Controls other than line break and tab, and two code points that are no characters. Postgres refuses NUL."""

_CUT_MARK = re.compile(r"…\[cut: [\d,]+ characters\]\Z")

_JOINER = "\u200d"  # glues emoji into one
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_LONGEST_STEP_BACK = 32
"""How far a cut moves to spare a composed character; a longer chain of marks is no writing."""

_INVISIBLE_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
_VARIATION_SELECTORS = (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_INVISIBLE = frozenset({*_INVISIBLE_LETTERS, *map(chr, _VARIATION_SELECTORS)})

_HARMLESS = str.maketrans({"<": "\u2039", ">": "\u203a", "[": "(", "]": ")", "`": "'"})
"""Without these no <|im_start|>, </think>, [INST], code fence, tag or mark of our own can be spelled."""


def clean(text: str, limit: int | None = None) -> str:
    """Text that Postgres, JSON and every model server take; whoever wrote it would not see a difference."""
    if _SURROGATE.search(text):  # as UTF-16, true pairs become one character and halves fall out
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text if limit is None else cut(text, limit)


def cut(text: str, chars: int) -> str:
    """At most the first `chars` characters and, if that is not all, a mark that says how many are missing.

    Cutting twice at the same place changes nothing. No composed character is split, where that is cheap to see.
    """
    mark = _CUT_MARK.search(text)
    if (mark.start() if mark else len(text)) <= chars:
        return text
    end = _border(text, max(chars, 0))
    return f"{text[:end]}…[cut: {len(text) - end:,} characters]"


def neutral(text: str, limit: int) -> str:
    """One visible line of at most `limit` characters that no template, tokenizer or fence reads as its own.

    For strings that hosts and strangers supply: their labels, status messages, GPU names. Each look brings them again.
    """
    return _neutral(text[: limit * 8], limit)  # nobody reads more; a host may send megabytes


@lru_cache(maxsize=2048)
def _neutral(text: str, limit: int) -> str:
    text = clean(text)
    if not text.isascii():  # what is has one form alone, and `clean` has left nothing in it that is not to be seen
        # Compatibility forms first: some tokenizers read a full-width bracket as a bracket.
        text = _visible(unicodedata.normalize("NFKC", _visible(text)))
    line = " ".join(text.split()).translate(_HARMLESS)
    return line if len(line) <= limit else f"{line[: _border(line, max(limit - 3, 0))].rstrip()}..."[:limit]


def _visible(text: str) -> str:
    """The same without what has no shape: directions, zero widths, fillers, tags, private and unassigned characters."""
    return "".join(c for c in text if c not in _INVISIBLE and (c in "\n\t" or unicodedata.category(c)[0] != "C"))


def _border(text: str, end: int) -> int:
    """The last place at or before `end` that does not part a base from its marks, or `end` if none is near."""
    for place in range(end, max(end - _LONGEST_STEP_BACK, 0), -1):
        if not _continues(text, place):
            return place
    return end


def _continues(text: str, place: int) -> bool:
    """Whether the character at `place` belongs to the one before it."""
    char = text[place]
    return (
        char == _JOINER
        or text[place - 1] == _JOINER
        or ord(char) in _SKIN_TONES
        or unicodedata.category(char).startswith("M")
    )
