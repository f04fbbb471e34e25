"""What was asked and what was answered: the newest 500 whole, counts of all."""

import json
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetagent.sim.model.conversation import Violation

KEPT = 500
LARGEST_ANSWER_BYTES = 200_000


@dataclass(slots=True)
class Exchange:
    """One POST to /v1/chat/completions. `status` is None while it is being answered, or when the client went away.

    It is 0 when the connection was cut.
    """

    seq: int
    raw: bytes
    received_at: float = field(default_factory=time.time)
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    violations: list[dict[str, Any]] = field(default_factory=list)
    fault: str | None = None
    status: int | None = None
    answer: Any = None
    abandoned: bool = False

    def as_json(self) -> dict[str, Any]:
        """Everything, the body decoded where it can be."""
        try:
            body = json.loads(self.raw)
        except ValueError:
            body = self.raw.decode(errors="replace")
        return {
            "seq": self.seq,
            "received_at": self.received_at,
            "body": body,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "violations": self.violations,
            "fault": self.fault,
            "status": self.status,
            "answer": self.answer,
            "abandoned": self.abandoned,
        }


def shown(body: Any, size: int) -> Any:
    """An answer as the record keeps it: the huge ones of some faults would fill the memory."""
    if size > LARGEST_ANSWER_BYTES:
        return f"({size} bytes, not kept)"
    return body.decode(errors="replace") if isinstance(body, bytes) else body


class Recorder:
    """Keeps exchanges in the order of their arrival."""

    def __init__(self) -> None:
        self._kept: deque[Exchange] = deque(maxlen=KEPT)
        self.requests = 0
        self.by_rule: Counter[str] = Counter()
        self.overflows = 0
        self.max_prompt_tokens = 0
        self.last_prompt_tokens: int | None = None
        self.counter_calls: Counter[str] = Counter()

    def begin(self, raw: bytes) -> Exchange:
        """A request has arrived."""
        self.requests += 1
        exchange = Exchange(self.requests, raw)
        self._kept.append(exchange)
        return exchange

    def violated(self, exchange: Exchange, violations: Sequence[Violation]) -> None:
        """It was not in order."""
        exchange.violations = [{"rule": v.rule, "sentence": v.sentence, "param": v.param} for v in violations]
        self.by_rule.update(violation.rule for violation in violations)

    def counted(self, exchange: Exchange, prompt_tokens: int) -> None:
        """Its prompt has so many tokens, accepted or not."""
        exchange.prompt_tokens = prompt_tokens
        self.last_prompt_tokens = prompt_tokens
        self.max_prompt_tokens = max(self.max_prompt_tokens, prompt_tokens)

    def asked_counter(self, path: str) -> None:
        """Somebody wanted an exact count, or the window."""
        self.counter_calls[path] += 1

    def since(self, seq: int) -> list[Exchange]:
        """Those after `seq` that are still kept."""
        return [exchange for exchange in self._kept if exchange.seq > seq]
