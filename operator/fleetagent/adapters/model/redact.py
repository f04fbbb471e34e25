"""Keeps secrets out of logs, conditions and Events: servers and proxies echo what they were sent."""

import base64
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from fleetagent.domain.text import neutral

HIDDEN = "[hidden]"
LONGEST_TEXT_CHARS = 64_000
SHORTEST_SECRET_CHARS = 4  # a shorter one, say a dummy key, would blot out ordinary words
SECRETS_REMEMBERED = 256
PIECE_CHARS = 8
"""A secret may come in two halves, or be cut at somebody's limit: so much of it in a row is hidden too."""
URLSAFE = str.maketrans("+/", "-_")

PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)(\s+|%20|\+)[\w.~+/*-]{4,}=*"), rf"\1\2{HIDDEN}"),
    (re.compile(r"\b(?:sk|pk|rk)-[\w*.-]{4,}"), HIDDEN),
    (re.compile(r"\b(?:hf|gsk|ghp|xai|nvapi)[_-]\w{8,}"), HIDDEN),
    (
        re.compile(r"\beyJ[\w-]{12,}(?:\.[\w-]+)*"),
        HIDDEN,
    ),  # takes all that it reads: none of these may go back and forth
    (
        re.compile(
            r"""(?ix)
            ( ["']? (?: x-)? (?: api[_-]?key | access[_-]?token | authorization | password | secret ) \\? ["']?
              \s* [:=] \s* \\? ["']? )
            (?! \[hidden\] | (?:bearer|basic)\b ) [^\s"',;&}\\]{4,}"""
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)([?&](?:key|token|sig)=)[^&\s\"']+"), rf"\1{HIDDEN}"),
    (re.compile(r"(\w://)[^/\s:@]+(?::[^/\s@]*)?@"), rf"\1{HIDDEN}@"),
)


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, however they are spelled, and without whatever looks like one."""
    text = text[:LONGEST_TEXT_CHARS]
    for secret in sorted(filter(_worth_hiding, secrets), key=len, reverse=True):
        text = _without_pieces(_spellings(secret).sub(HIDDEN, text), _pieces(secret))
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def shortened(text: str, longest_chars: int) -> str:
    """The text on one line that no template reads as its own, cut when it is longer.

    Redact first: a cut could leave half a secret.
    """
    text = neutral(text, max(len(text), 1)).replace("(hidden)", HIDDEN)
    return text if len(text) <= longest_chars else f"{text[: longest_chars - 1]}…"


def _worth_hiding(secret: str) -> bool:
    return len(secret) >= SHORTEST_SECRET_CHARS


@lru_cache(maxsize=SECRETS_REMEMBERED)
def _spellings(secret: str) -> re.Pattern[str]:
    """The secret itself, each character perhaps escaped, and as base64 and hex, alone or behind a user's name.

    A long one may be folded: line breaks, zero widths and what HTML breaks words with do not part it.
    """
    escaped = (FOLD if len(secret) > PIECE_CHARS else "").join(map(_character, secret))
    encoded = sorted({*_in_base64(secret)}, key=len, reverse=True)
    return re.compile("|".join([escaped, f"(?i:{secret.encode().hex()})", *map(re.escape, encoded)]))


@lru_cache(maxsize=SECRETS_REMEMBERED)
def _pieces(secret: str) -> frozenset[str]:
    """What is as long as a piece, of the secret and of its encodings; nothing of a short one, which words may hold."""
    if len(secret) < PIECE_CHARS * 3 // 2:
        return frozenset()
    wholes = (secret, secret.encode().hex(), secret.encode().hex().upper(), *_in_base64(secret))
    return frozenset(whole[at : at + PIECE_CHARS] for whole in wholes for at in range(len(whole) - PIECE_CHARS + 1))


def _without_pieces(text: str, pieces: frozenset[str]) -> str:
    kept, clear_from = [], 0
    for at in range(len(text) - PIECE_CHARS + 1) if pieces else ():
        if text[at : at + PIECE_CHARS] in pieces:
            if at >= clear_from:
                kept += [text[clear_from:at], HIDDEN]
            clear_from = at + PIECE_CHARS
    return "".join([*kept, text[clear_from:]])


def _character(character: str) -> str:
    """One character as it is, as a URL, JSON (also within JSON) and HTML may write it."""
    code = ord(character)
    percent = "".join(f"%(?:25)?(?i:{byte:02x})" for byte in character.encode())
    return (
        rf"(?:\\{{0,3}}{re.escape(character)}|{percent}|\\{{1,3}}(?:u00|x)(?i:{code:02x})|\\{{1,3}}u(?i:{code:04x})"
        rf"|&#0*{code};|&#[xX]0*(?i:{code:x});"
        rf"{_NAMED.get(character, '')})"
    )


FOLD = r"(?:[\s\u00ad\u200b-\u200d\u2060\ufeff]|\\{1,3}[nrt]|<wbr ?/?>|&shy;){0,4}?"
_NAMED = {"&": "|&amp;", "<": "|&lt;", ">": "|&gt;", '"': "|&quot;", "'": "|&apos;", " ": r"|\+"}


def _in_base64(secret: str) -> Iterator[str]:
    """What base64 of any text that ends with the secret, or has it in the middle, holds of it for certain.

    Three bytes become four letters, so there are three ways to fall on them; letters shared with neighbours are left.
    """
    raw = secret.encode()
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        first = (before * 8 + 5) // 6
        last = (before + len(raw)) * 8 // 6
        core = whole[first:last]
        if len(core) >= SHORTEST_SECRET_CHARS:
            yield core
            yield core.translate(URLSAFE)
