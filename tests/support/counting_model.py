"""A model server that counts its own way and knows no mercy, fast enough for tens of thousands of requests."""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.model import JsonObject, ModelRequest, Reply, Usage
from fleetagent.errors import PromptTooLong
from support.fakes import Line, says

_PIECES = re.compile(r"[0-9]|\s?[A-Za-z]{1,6}|\s*[^A-Za-z0-9\s]+|\s+")
CHECKED_EVERY = 10
_FRAME_TOKENS = 6
_CALL_TOKENS = 18


@lru_cache(maxsize=50_000)
def _tokens(text: str) -> int:
    """Not our vocabulary, nor our idea of a message's frame."""
    return len(_PIECES.findall(text))


def counted(request: ModelRequest) -> int:
    """All that a template would write: texts, calls, schemas, frames."""
    return sum(map(_in_message, request.messages)) + _in_tools(request)


def tokens_of_fixed_part(request: ModelRequest) -> int:
    """System prompt and schemas."""
    return _in_message(request.messages[0]) + _in_tools(request)


def _in_tools(request: ModelRequest) -> int:
    return sum(_tokens(json.dumps(tool)) for tool in request.tools)


def _in_message(message: JsonObject) -> int:
    called = [call["function"] for call in message.get("tool_calls", ())]
    in_calls = sum(_CALL_TOKENS + _tokens(f["name"]) + _tokens(f["arguments"]) for f in called)
    return _FRAME_TOKENS + _tokens(str(message["content"])) + in_calls


def _calls(message: JsonObject) -> str:
    return json.dumps(message["tool_calls"]) if "tool_calls" in message else ""


@dataclass
class Figures:
    """What one request was like."""

    prompt_tokens: int
    messages: int
    chars: int
    share: float
    """How much of the request before it this one begins with, in characters; of its kind, summaries apart."""


@dataclass
class CountingModel:
    """Implements ports.Model. A request that a strict server would refuse, or that is too long, is counted as such."""

    window: int
    count: Callable[[ModelRequest], int] = counted
    checked_every: int = CHECKED_EVERY
    script: list[Line] = field(default_factory=list)
    summaries: list[Line] = field(default_factory=list)
    asked: list[Figures] = field(default_factory=list)
    summaries_asked: int = 0
    tokens: int = 0
    refused: list[str] = field(default_factory=list)
    last: ModelRequest | None = None

    async def reply(self, request: ModelRequest) -> Reply:
        """The next line; hold, when there is none."""
        tokens = self.count(request)
        if (
            not request.may_call_tools or len(self.asked) % self.checked_every == 0
        ):  # the engine has checked each itself
            self.refused += violations(request.messages)
        if tokens + request.max_output_tokens > self.window:
            self.refused.append(f"{tokens} + {request.max_output_tokens} tokens are more than {self.window}")
            raise PromptTooLong(self.refused[-1], limit_tokens=self.window)
        if request.may_call_tools:
            self._remember(request, tokens)
        else:
            self.summaries_asked += 1
        lines = self.script if request.may_call_tools else self.summaries
        line = lines.pop(0) if lines else says()
        if isinstance(line, Exception):
            raise line
        said = line if isinstance(line, Reply) else line(request)
        out = _tokens(said.text) + sum(_tokens(c.name + c.arguments) for c in said.calls)
        self.tokens += tokens + out
        return replace(said, usage=Usage(tokens, out, None))

    async def context_window(self) -> int | None:
        """It names none."""
        return None

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """It has no counter but its replies."""
        del request
        return None

    def _remember(self, request: ModelRequest, tokens: int) -> None:
        chars = sum(map(_chars, request.messages))
        share = _shared(self.last.messages, request.messages) if self.last is not None else 1.0
        self.asked.append(Figures(tokens, len(request.messages), chars, share))
        self.last = request

    def shows(self, text: str) -> bool:
        """Whether the newest request holds a message of exactly these words."""
        return self.last is not None and any(m["content"] == text for m in self.last.messages)


@lru_cache(maxsize=50_000)
def _spelled(content: str, calls: str) -> str:
    return content + calls


def _spell(message: JsonObject) -> str:
    return _spelled(f"{message['role']}\n{message['content']}\n", _calls(message))


def _chars(message: JsonObject) -> int:
    return len(_spell(message))


def _shared(before: Sequence[JsonObject], now: Sequence[JsonObject]) -> float:
    """How much of the request before is a prefix of this one."""
    same = next((n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
    chars = sum(map(_chars, before[:same]))
    if same < min(len(before), len(now)):
        pairs = zip(_spell(before[same]), _spell(now[same]), strict=False)
        chars += sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return chars / sum(map(_chars, before))
