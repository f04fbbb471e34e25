"""What came back over the wire, before anybody judged it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

OK = range(200, 300)


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; header names are lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """The body as text; what is not UTF-8 in it is replaced."""
        return self.body.decode("utf-8", "replace")

    @cached_property
    def json(self) -> Any:
        """The body as JSON, or None when it is none: servers and proxies answer in HTML and plain text too."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    @property
    def is_ok(self) -> bool:
        """By its status alone: an error may stand in the body all the same."""
        return self.status in OK

    @property
    def request_id(self) -> str | None:
        """How the server's own log names this request."""
        return self.headers.get("x-request-id") or self.headers.get("x-litellm-call-id")


class Because(StrEnum):
    """Why there is no answer."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SIZE = "size"
    CERTIFICATE = "certificate"
    URL = "url"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Nothing came back, or not all of it."""

    because: Because
    message: str
