"""What goes back over the wire: a choice message with its usage, or an answer of any other kind."""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

FINGERPRINT = "scripted-policy"
"""Each completion carries it, so that nobody takes these words for a language model's."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One choice: its message as it will stand in the body, and why it ended."""

    message: Mapping[str, Any]
    finish_reason: str | None = "stop"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one completion; `cached` is the part of `prompt` that was not computed again."""

    prompt: int
    completion: int
    cached: int = 0

    def as_json(self) -> dict[str, Any]:
        """In OpenAI's words."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer; a `body` of text or bytes goes out as it is, anything else as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer, until the client goes away."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The connection is closed without a word, as while a pod is replaced."""


@dataclass(frozen=True, slots=True)
class CutShort:
    """Half of this answer, then the connection is closed."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Trickle:
    """The headers of this answer at once, then a byte of it now and then; never, with an endless pause."""

    answer: Answer
    pause_seconds: float


Served: TypeAlias = Answer | Hang | Dropped | CutShort | Trickle
"""Whatever a client can get to see."""


def tool_call(name: str, arguments: str) -> dict[str, Any]:
    """A call as it stands in a message, with an id that was never used before."""
    return {
        "id": f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def assistant(content: str | None, *calls: tuple[str, Mapping[str, Any]]) -> Reply:
    """Words, or calls with or without words; the finish reason follows."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [tool_call(name, json.dumps(arguments)) for name, arguments in calls]
    return Reply(message, "tool_calls" if calls else "stop")


def completion(reply: Reply, *, model: str, usage: Usage) -> dict[str, Any]:
    """The body of a 200."""
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
        "choices": [{"index": 0, "message": reply.message, "logprobs": None, "finish_reason": reply.finish_reason}],
        "usage": usage.as_json(),
    }


def nested_error(status: int, message: str, *, kind: str, param: str | None = None, code: object = None) -> Answer:
    """An error as OpenAI, vLLM, llama.cpp and LiteLLM write it."""
    return Answer(status, {"error": {"message": message, "type": kind, "param": param, "code": code}})


def flat_error(status: int, message: str, *, kind: str = "BadRequestError", param: str | None = None) -> Answer:
    """An error as older vLLM and SGLang write it."""
    body = {"object": "error", "message": message, "type": kind, "param": param, "code": status}
    return Answer(status, body)


def string_error(status: int, text: str) -> Answer:
    """An error as Ollama writes it, and vLLM for a wrong key."""
    return Answer(status, {"error": text})


def detail(status: int, what: object) -> Answer:
    """An error as FastAPI writes it."""
    return Answer(status, {"detail": what})
