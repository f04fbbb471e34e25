"""What a report must not hold: secrets, however they got where people and programs have written them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleetagent.adapters.model.redact import HIDDEN, redacted

DROPPED = {"managedFields", "kubectl.kubernetes.io/last-applied-configuration"}
"""The second one is the whole manifest once more, as text."""
ALL_HIDDEN = {"env", "parameters"}
"""Maps in which people keep what they like: the names say enough."""
SCRIPTS = {"onstart"}
SECRET_NAME = re.compile(
    r"(?i)(pass(word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|credentials?|authorization|cookie|dsn)$"
)

PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(/workers/)[\w~.-]+"), rf"\1{HIDDEN}"),  # by it a machine speaks
    (re.compile(r"""(https?://[^\s?"'<>]+)\?[^\s"'<>]*"""), rf"\1?{HIDDEN}"),
    (re.compile(r"""\b(?!https?://)([a-zA-Z][\w+.-]{0,40}://)[^\s"'<>]+"""), rf"\1{HIDDEN}"),  # a database, a pager
    # Whoever knows the path of a web-hook may write there.
    (
        re.compile(r"""(?i)(https?://[^\s/"'<>]{0,253}(?:hook|telegram|googleapis)[^\s/"'<>]*/)[^\s"'<>]+"""),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"""(?i)(https?://[^\s"'<>]{1,253}?/(?:web)?hooks?/)[^\s"'<>]+"""), rf"\1{HIDDEN}"),
    (re.compile(r"""(?i)(cookie\\?["']?\s{0,4}:\s{0,4})[^"'\\\n]+"""), rf"\1{HIDDEN}"),
    (
        re.compile(
            r"""(?ix)
            ( (?: token | passwd | passphrase | access[_-]?key | credentials? | csrf | cookie ) \\?["']?
              \s{0,4} [:=] \s{0,4} \\?["']? )
            (?! \[hidden\] ) [^\s"',;&}\\]{4,}"""
        ),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(r"(?i)((?<![\w-])--?(?:[a-z]{1,20}-){0,4}(?:token|password|passwd|secret|key)\s{1,4})[^\s\"',]+"),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"((?<![\w-])(?:-u|--user)\s{1,4}[^\s:]{1,100}:)\S+"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:github_pat|glpat|dckr_pat|xox[a-z]|AIza|ya29|SG)[_.-]?[\w.-]{8,}"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}"), HIDDEN),
    (re.compile(r"(?<!sha256:)\b[0-9a-fA-F]{64}\b"), HIDDEN),  # as markets' keys look
    (re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(-----END|$)"), rf"\1{HIDDEN}\2"),
)
BEGINS, ENDS = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"), "-----END"
FLAG = re.compile(r"(?i)--?[\w-]{0,80}(?:token|password|passwd|secret|key)$")
"""Its value is the next word."""


def hidden_in(value: Any, name: str = "") -> Any:
    """The same JSON without what looks secret by its name or place, or by what it says."""
    secret = SECRET_NAME.search(name) is not None
    if isinstance(value, Mapping):
        kept = {key: each for key, each in value.items() if key not in DROPPED}
        if name in ALL_HIDDEN or secret:
            return dict.fromkeys(kept, HIDDEN)
        return {key: hidden_in(each, key) for key, each in kept.items()}
    if isinstance(value, list):
        behind = [None, *value]
        return [
            HIDDEN if isinstance(before, str) and FLAG.fullmatch(before) else hidden_in(each, name)
            for before, each in zip(behind, value, strict=False)
        ]
    if not isinstance(value, str) or not value:
        return value
    if name in SCRIPTS or secret:
        return f"{HIDDEN}: {len(value)} characters"
    return hidden_lines(value, ())


def hidden_lines(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets and without whatever looks like one; line by line, so that none is cut off."""
    known = tuple(secrets)
    return "".join(_lines(text, known))


def _lines(text: str, secrets: tuple[str, ...]) -> Iterator[str]:
    within_key = False
    for each in text.splitlines(keepends=True):
        line = each.rstrip("\r\n")
        if within_key:
            within_key = ENDS not in line
            yield HIDDEN + each[len(line) :]
            continue
        begins = BEGINS.search(line)
        within_key = begins is not None and ENDS not in line[begins.end() :]
        yield _hidden(line, secrets) + each[len(line) :]


def _hidden(text: str, secrets: tuple[str, ...]) -> str:
    text = redacted(text, secrets)
    for pattern, instead in PATTERNS:
        text = pattern.sub(instead, text)
    return text
