"""What one model server is told at its start."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fleetagent.sim.model.personality import PERSONALITIES, Personality

Counter = Literal["none", "vllm", "llama.cpp"]
COUNTERS: tuple[Counter, ...] = ("none", "vllm", "llama.cpp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Where it listens, what it calls itself, and how strict and how slow it is."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes any free port."""

    api_key: str | None = field(default=None, repr=False)
    """Demanded on /v1 when set; /health and /_sim stay open."""

    model: str = "qwen3.5-122b"
    context_window: int = 32768
    """Tokens of prompt and completion together."""

    latency_seconds: float = 0.0
    """How long each answer takes at least."""

    personality: Personality = PERSONALITIES["strict"]
    """What it refuses."""

    counter: Counter = "none"
    """Whose exact token counter it offers: `/tokenize` of vLLM, or `/v1/chat/completions/input_tokens` and `/props` of
    llama.cpp."""

    names_window: bool = True
    """Whether /v1/models tells `max_model_len`, as vLLM does."""

    counts_more: float = 1.0
    """By which factor its count differs from that of our own vocabulary: limit, usage and counters go by it."""

    clips_at: int | None = None
    """Prompts above so many tokens are cut in front without a word, and the usage sticks there, as Ollama does."""

    def count(self, tokens: int) -> int:
        """What so many tokens of our vocabulary are to this server."""
        return math.ceil(tokens * self.counts_more)

    def clipped(self, count: int) -> int:
        """How many tokens of a prompt it really reads."""
        return count if self.clips_at is None else min(count, self.clips_at)

    def changed(self, wish: Mapping[str, Any]) -> "ModelConfig":
        """The same server with other habits. ValueError says what is not understood."""
        unknown = sorted(wish.keys() - CHANGEABLE.keys())
        if unknown:
            raise ValueError(f"these can't be changed: {', '.join(unknown)}; only {', '.join(CHANGEABLE)} can")
        for name, value in wish.items():
            if not CHANGEABLE[name](value):
                raise ValueError(f"{name} can't be {value!r}")
        chosen = wish.get("personality")
        personality = self.personality if chosen is None else PERSONALITIES[chosen]
        return replace(self, **{**wish, "personality": personality})


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _tokens(value: object) -> bool:
    return isinstance(value, int) and _positive(value)


CHANGEABLE: Mapping[str, Callable[[Any], bool]] = {
    "context_window": _tokens,
    "latency_seconds": lambda value: value == 0 or _positive(value),
    "personality": lambda value: isinstance(value, str) and value in PERSONALITIES,
    "counter": lambda value: value in COUNTERS,
    "names_window": lambda value: isinstance(value, bool),
    "counts_more": _positive,
    "clips_at": lambda value: value is None or _tokens(value),
}
"""What may change while it serves, and what it may be."""
