"""A scripted model endpoint for the policy of repetition: nothing sleeps, nothing is sent."""

import asyncio
import heapq
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from fleetagent.adapters.model.answers import Answer, NoAnswer
from fleetagent.adapters.model.complaints import Endpoint
from fleetagent.adapters.model.gate import Gate
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
    gate: Gate = field(default_factory=Gate)
    call_seconds: float = 0.0
    now: float = 0.0
    on_call: Callable[[], None] = lambda: None
    """What happens elsewhere while a call is under way."""

    bodies: list[JsonObject] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def send(self, body: JsonObject, timeout_seconds: float) -> Answer | NoAnswer:
        self.now += min(self.call_seconds, timeout_seconds)
        self.bodies.append(body)
        self.on_call()
        return self.answers[min(len(self.bodies), len(self.answers)) - 1]

    async def offered(self) -> tuple[str, ...]:
        return ("qwen3.5-122b", "llama")

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self.waits.append(seconds)
        self.now += seconds

    def reply(self, request: ModelRequest | None = None, patience_seconds: float = 240) -> Reply:
        timing = Timing(sleep=self.sleep, chance=lambda: 1.0, monotonic=lambda: self.now, epoch=lambda: self.now)
        means = means_of(self.send, self.habits, self.gate, timing)
        return asyncio.run(Pursuit(means, request or asking(), patience_seconds=patience_seconds).reply())


def means_of(
    send: Callable[[JsonObject, float], Awaitable[Answer | NoAnswer]], habits: Habits, gate: Gate, timing: Timing
) -> Means:
    return Means(
        send=send,
        offered=offered,
        hide=partial(redacted, secrets=(KEY,)),
        endpoint=Endpoint(url="http://llm/v1", model="qwen", has_key=True),
        habits=habits,
        gate=gate,
        timing=timing,
    )


async def offered() -> tuple[str, ...]:
    return ("qwen3.5-122b", "llama")


@dataclass
class Crowd:
    """Agents that ask one server at once, in a time that moves on when all of them sleep or wait for an answer."""

    answers: Callable[[float, JsonObject], Answer | NoAnswer]
    """What the server says at that moment to that request."""

    gate: Gate = field(default_factory=Gate)
    habits: Habits = field(default_factory=Habits)
    call_seconds: float = 0.0
    now: float = 0.0
    asked_at: list[float] = field(default_factory=list)
    _sleeping: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleeping, (self.now + seconds, id(woken), woken))
        await woken

    async def send(self, body: JsonObject, timeout_seconds: float) -> Answer | NoAnswer:
        self.asked_at.append(self.now)
        answer = self.answers(self.now, body)
        await self.sleep(min(self.call_seconds, timeout_seconds))
        return answer

    async def agent(self, patience_seconds: float = 240, at: float = 0.0, **fields: Any) -> Reply:
        await self.sleep(at)
        timing = Timing(sleep=self.sleep, chance=lambda: 1.0, monotonic=lambda: self.now, epoch=lambda: self.now)
        means = means_of(self.send, self.habits, self.gate, timing)
        return await Pursuit(means, asking(**fields), patience_seconds=patience_seconds).reply()

    async def all(self, *agents: Coroutine[Any, Any, Reply]) -> list[Reply | BaseException]:
        """What became of each, in order."""
        everybody = asyncio.gather(*agents, return_exceptions=True)
        while not everybody.done():
            for _ in range(3 * len(agents) + 10):  # all go as far as they can
                await asyncio.sleep(0)
            if self._sleeping:
                self.now, _, woken = heapq.heappop(self._sleeping)
                woken.set_result(None)
        return everybody.result()
