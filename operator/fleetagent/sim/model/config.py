"""What one model server is told at its start."""

from dataclasses import dataclass, field

from fleetagent.sim.model.personality import PERSONALITIES, Personality


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
