"""A scripted model endpoint for the policy of repetition: nothing sleeps, nothing is sent."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from fleetagent.adapters.model.answers import Answer, NoAnswer
from fleetagent.adapters.model.complaints import Endpoint
from fleetagent.adapters.model.payload import Habits
from fleetagent.adapters.model.pursuit import Means, Pursuit
from fleetagent.adapters.model.redact import redacted
from fleetagent.adapters.model.waits import Timing
from fleetagent.domain.model import JsonObject, ModelRequest, Reply

KEY = "very-secret-key"
TOOL = {"type": "function", "function": {"name": "get_fleet", "parameters": {"type": "object", "properties": {}}}}


def ok(content: Any = "hold", finish_reason: str = "stop", **message: Any) -> Answer:
    return answered(200, {"choices": [{"message": {"content": content, **message}, "finish_reason": finish_reason}]})


def answered(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, (body if isinstance(body, str) else json.dumps(body)).encode(), headers or {})


def error(status: int, message: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Answer:
    return answered(status, {"error": {"message": message, **fields}}, headers)


def asking(**fields: Any) -> ModelRequest:
    usual: dict[str, Any] = {
        "messages": ({"role": "user", "content": "hi"},),
        "tools": (TOOL,),
        "max_output_tokens": 2048,
        "timeout": timedelta(seconds=120),
    }
    return ModelRequest(**{**usual, **fields})


@dataclass
class Server:
    """Answers from a list, the last one for ever; its clock moves only when somebody sleeps or calls take time."""

    answers: Sequence[Answer | NoAnswer]
    habits: Habits = field(default_factory=Habits)
    call_seconds: float = 0.0
    now: float = 0.0
    bodies: list[JsonObject] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def send(self, body: JsonObject, timeout_seconds: float) -> Answer | NoAnswer:
        self.now += min(self.call_seconds, timeout_seconds)
        self.bodies.append(body)
        return self.answers[min(len(self.bodies), len(self.answers)) - 1]

    async def offered(self) -> tuple[str, ...]:
        return ("qwen3.5-122b", "llama")

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def reply(self, request: ModelRequest | None = None, patience_seconds: float = 240) -> Reply:
        timing = Timing(sleep=self.sleep, chance=lambda: 1.0, monotonic=lambda: self.now, epoch=lambda: self.now)
        means = Means(
            send=self.send,
            offered=self.offered,
            hide=partial(redacted, secrets=(KEY,)),
            endpoint=Endpoint(url="http://llm/v1", model="qwen", has_key=True),
            habits=self.habits,
            timing=timing,
        )
        return asyncio.run(Pursuit(means, request or asking(), patience_seconds=patience_seconds).reply())
