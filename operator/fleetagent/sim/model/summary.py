"""Answers a request for a summary: from the conversation's own sentences and ids, never longer than it may be."""

import re
from collections.abc import Iterable, Iterator

from fleetagent.sim.model.conversation import ChatRequest, Message
from fleetagent.sim.model.count import text_tokens

_ASKS = re.compile(r"^\s*summari[sz]e\b|\bsummary\b", re.IGNORECASE)
_IDS = re.compile(r"\b(?:inst|instance|offer|action|alert|wake|host|machine)-[A-Za-z0-9]+\b")
_TO_NAME = re.compile(r"^Name these machines: (.+)\.$", re.MULTILINE)
_SAID = re.compile(r"(?:^|- |agent: )((?:Launched|Stopped|Refused|Failed|Unclear|Hold)\b[^{]*)")
_MOST_WORDS = re.compile(r"at most (\d+) words")
NOTHING = "In the runs that this covers, nothing was launched, stopped or refused."
SENTENCES = 12
IDS = 40
LINE_CHARS = 160


def asks_for_summary(request: ChatRequest) -> bool:
    """Whether the last message asks for one, and no tool may be called."""
    last = request.messages[-1]
    barred = request.tool_choice == "none" or not request.tools
    return barred and last.role == "user" and bool(_ASKS.search(last.text or ""))


def summarise(request: ChatRequest) -> str:
    """Headings and lines, as many as fit; the newest of what was said, the first of the ids."""
    asked, before = request.messages[-1], request.messages[:-1]
    said = _unique([*_sentences(before), *_quoted(asked.text or "")])[-SENTENCES:]
    named = _TO_NAME.search(asked.text or "")
    ids = named[1].split(", ") if named else []
    ids += _unique(_IDS.findall("\n".join([asked.text or "", *(message.text or "" for message in before)])))[:IDS]
    lines = ["## What happened", *(f"- {sentence}" for sentence in said or [NOTHING])]
    lines += ["## Names", ", ".join(ids)] if ids else []
    room = (request.max_tokens or 512) - 1  # one for the end marker
    limit = _MOST_WORDS.search(asked.text or "")
    while len(lines) > 1 and not _fits("\n".join(lines), room, int(limit[1]) if limit else None):
        lines.pop(1)  # the oldest sentence goes first, the names last
    return "\n".join(lines)


def _fits(text: str, tokens: int, words: int | None) -> bool:
    return len(text_tokens(text)) <= tokens and (words is None or len(text.split()) <= words)


def _sentences(messages: Iterable[Message]) -> Iterator[str]:
    """What was said at the end of runs, and what an earlier summary quoted of it; no verdicts."""
    for message in messages:
        if message.role == "assistant" and not message.calls:
            lines = (line.strip() for line in (message.text or "").splitlines())
            yield from (line[:LINE_CHARS] for line in lines if line and not line.startswith("{"))
        if message.role == "user":
            yield from _quoted(message.text or "")


def _quoted(text: str) -> Iterator[str]:
    """Sentences that the policy itself once said, also where a transcript or an earlier summary repeats them."""
    for line in text.splitlines():
        if found := _SAID.search(line):
            yield found[1].strip()[:LINE_CHARS]


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
