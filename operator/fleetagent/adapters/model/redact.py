"""Keeps secrets out of logs, conditions and Events: servers and proxies echo what they were sent."""

import json
import re
from collections.abc import Iterable

HIDDEN = "[hidden]"
LONGEST_TEXT_CHARS = 64_000
SHORTEST_SECRET_CHARS = 4  # a shorter one, say a dummy key, would blot out ordinary words

PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[\w.~+/*-]{4,}=*"), rf"\1\2{HIDDEN}"),
    (re.compile(r"\b(?:sk|pk|rk)-[\w*.-]{4,}"), HIDDEN),
    (re.compile(r"\b(?:hf|gsk|ghp|xai|nvapi)[_-]\w{8,}"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]+)?"), HIDDEN),
    (
        re.compile(
            r"""(?ix)
            ( ["']? (?: x-)? (?: api[_-]?key | access[_-]?token | authorization | password | secret ) ["']?
              \s* [:=] \s* ["']? )
            (?! \[hidden\] | (?:bearer|basic)\s ) [^\s"',;&}]{4,}"""
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)([?&](?:key|token|sig)=)[^&\s\"']+"), rf"\1{HIDDEN}"),
    (re.compile(r"(\w://)[^/\s:@]+(?::[^/\s@]*)?@"), rf"\1{HIDDEN}@"),
)


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets and without whatever looks like one."""
    text = text[:LONGEST_TEXT_CHARS]
    for secret in sorted(filter(_worth_hiding, secrets), key=len, reverse=True):
        for spelling in (secret, json.dumps(secret)[1:-1]):
            text = text.replace(spelling, HIDDEN)
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def shortened(text: str, longest_chars: int) -> str:
    """The text on one line, cut when it is longer; redact first, a cut could leave half a secret."""
    text = " ".join(text.split())
    return text if len(text) <= longest_chars else f"{text[: longest_chars - 1]}…"


def _worth_hiding(secret: str) -> bool:
    return len(secret) >= SHORTEST_SECRET_CHARS
