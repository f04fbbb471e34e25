"""The model client as its integration tests make it, with a clock that they need not wait for."""

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx2

from fleetagent.adapters.model.client import OpenAIModel
from fleetagent.adapters.model.waits import Timing
from fleetagent.domain.model import ModelRequest
from support.chat_bodies import all_tools, system, user

KEY = "the-key-of-the-tests"
NAME = "qwen3.5-122b"


@dataclass
class Clock:
    """Real time for calls; waits cost none, and are written down."""

    waits: list[float] = field(default_factory=list)
    skipped: float = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.skipped += seconds

    @property
    def timing(self) -> Timing:
        return Timing(sleep=self.sleep, chance=lambda: 1.0, monotonic=lambda: time.monotonic() + self.skipped)


def model(server_url: str, http: httpx2.AsyncClient, **fields: Any) -> OpenAIModel:
    return OpenAIModel(**{"base_url": server_url, "api_key": KEY, "name": NAME, "http": http, **fields})


def asking(**fields: Any) -> ModelRequest:
    usual = {
        "messages": (system(), user()),
        "tools": tuple(all_tools()),
        "max_output_tokens": 512,
        "timeout": timedelta(seconds=10),
    }
    return ModelRequest(**{**usual, **fields})
