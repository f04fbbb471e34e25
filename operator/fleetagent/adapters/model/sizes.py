"""What a server says of tokens itself: the window it serves, and exactly how many tokens a prompt is to it.

Asked seldom and never waited for long. That a server does not say is remembered, too; nothing here ever fails a run.

| server | window | counter |
| --- | --- | --- |
| vLLM, SGLang | `max_model_len` in /v1/models and in /tokenize | `POST /tokenize`, outside /v1 |
| llama.cpp | `n_ctx` in /props, outside /v1 | `POST /v1/chat/completions/input_tokens` |

What llama-cpp-python's server counts (`/extras/tokenize/count`) is bare text without the template: not asked.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fleetagent.adapters.model.answers import Answer, NoAnswer
from fleetagent.adapters.model.parse import count_in
from fleetagent.domain.conversation.window import SMALLEST_WINDOW
from fleetagent.domain.model import JsonObject

Fetch = Callable[[str, JsonObject | None], Awaitable[Answer | NoAnswer]]
"""Gets a URL, or posts a body to it; a path is meant to begin at the base URL."""

LONGEST_SECONDS = 3.0
KNOWN_SECONDS = 3_600.0
"""A server may be started again with another window, or with a counter."""
UNKNOWN_SECONDS = 300.0
"""After no answer, or one that is about this moment alone."""
REFUSED_SECONDS = 86_400.0
"""How long a window holds that a refusal named: nobody but the next refusal would say it again."""
HAS_NONE = frozenset({401, 403, 404, 405, 410, 501})
DOES_ELSE = HAS_NONE | {400, 422}
"""What a path answers to our question that means another one."""
NAMES_OF_THE_WINDOW = ("max_model_len", "context_window", "context_length", "max_context_length")
OF_VLLM = ("messages", "tools", "chat_template_kwargs")


@dataclass(slots=True)
class Sizes:
    """What one endpoint and model has said; shared by all who talk to it. Times are of the monotonic clock."""

    window: int | None = None
    window_until: float = -1.0
    refused: int | None = None
    """The window that a refusal named."""
    refused_until: float = -1.0
    counter: "Counter | None" = None
    """The one that has answered."""
    counters_from: float = -1.0
    """When a counter may be asked again."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One kind of exact counter: where it stands, what of a chat's body it takes, where it says the count."""

    path: str
    is_outside: bool
    """Of the base URL, whose last part is /v1."""
    takes: tuple[str, ...] | None
    says: str

    def body(self, chat: JsonObject) -> JsonObject:
        """What it is asked; None takes the whole chat, so that what is counted is what is sent."""
        if self.takes is None:
            return chat
        asked = {name: chat[name] for name in self.takes if name in chat}
        return {"model": chat["model"], **asked, "add_generation_prompt": True}


COUNTERS = (
    Counter("/tokenize", is_outside=True, takes=OF_VLLM, says="count"),
    Counter("/chat/completions/input_tokens", is_outside=False, takes=None, says="input_tokens"),
)


class ServersOwn:
    """One endpoint and model, asked for its sizes."""

    def __init__(
        self, fetch: Fetch, *, base_url: str, model: str, sizes: Sizes, monotonic: Callable[[], float]
    ) -> None:
        self._fetch, self._model, self._sizes, self._monotonic = fetch, model, sizes, monotonic
        self._root = base_url.rstrip("/").removesuffix("/v1")

    async def window(self) -> int | None:
        """The smaller of what it names and of what its last refusal named; None while neither is known."""
        sizes, now = self._sizes, self._monotonic()
        if now >= sizes.window_until:
            sizes.window_until = now + UNKNOWN_SECONDS  # others, who come meanwhile, don't ask as well
            sizes.window, sure = await self._asked_window(now)
            if sure:
                sizes.window_until = now + KNOWN_SECONDS
        if now >= sizes.refused_until:
            sizes.refused = None
        return min((w for w in (sizes.window, sizes.refused) if w is not None and w >= SMALLEST_WINDOW), default=None)

    async def count(self, chat: JsonObject) -> int | None:
        """The tokens of this chat's prompt, if there is a counter and it answers at once."""
        sizes, now = self._sizes, self._monotonic()
        if now < sizes.counters_from:
            return None
        for counter in COUNTERS if sizes.counter is None else (sizes.counter,):
            url = f"{self._root}{counter.path}" if counter.is_outside else counter.path
            answer = await self._fetch(url, counter.body(chat))
            body = _object_in(answer)
            if (tokens := count_in(body.get(counter.says))) is not None:
                sizes.counter = counter
                return tokens
            if not _is_not_there(answer, known=sizes.counter is not None):
                sizes.counters_from = now + UNKNOWN_SECONDS
                return None
        sizes.counter, sizes.counters_from = None, now + KNOWN_SECONDS
        return None

    def refused_at(self, limit_tokens: int | None) -> None:
        """A refusal named this window; not all that a server says in one can be believed."""
        if limit_tokens is not None and limit_tokens >= SMALLEST_WINDOW:
            self._sizes.refused, self._sizes.refused_until = limit_tokens, self._monotonic() + REFUSED_SECONDS

    def accepted(self, prompt_tokens: int | None) -> None:
        """A prompt of this size was answered: a smaller window is none."""
        sizes = self._sizes
        if prompt_tokens is not None and sizes.refused is not None and prompt_tokens > sizes.refused:
            sizes.refused = None

    async def _asked_window(self, now: float) -> tuple[int | None, bool]:
        """What it names, and whether that (or that it names none) is worth remembering for long."""
        models = await self._fetch("/models", None)
        if not isinstance(models, Answer):  # it is away: to ask it more would be to wait once more
            self._sizes.counters_from = max(self._sizes.counters_from, now + UNKNOWN_SECONDS)
            return None, False
        window = next(_windows(_object_in(models).get("data"), self._model), None)
        if window is not None:
            return window, True
        props = await self._fetch(f"{self._root}/props", None)
        settings = _object_in(props).get("default_generation_settings")
        window = count_in(settings.get("n_ctx")) if isinstance(settings, dict) else None
        return window, window is not None or (_says_something(models) and _says_something(props))


def _windows(entries: Any, model: str) -> Iterator[int]:
    """Of the entry of this model, or of the only one there is: some servers answer to any name."""
    listed = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    meant = [e for e in listed if e.get("id") == model] or (listed if len(listed) == 1 else [])
    for entry in meant[:1]:
        yield from (w for name in NAMES_OF_THE_WINDOW if (w := count_in(entry.get(name))) is not None)


def _object_in(answer: Answer | NoAnswer) -> JsonObject:
    found = answer.json if isinstance(answer, Answer) and answer.is_ok else None
    return found if isinstance(found, dict) else {}


def _is_not_there(answer: Answer | NoAnswer, *, known: bool) -> bool:
    """Whether there is no such counter: no such path, or what stands there does something else.

    One that is `known` to count and refuses this prompt is still there.
    """
    if not isinstance(answer, Answer):
        return False
    return answer.is_ok or answer.status in (HAS_NONE if known else DOES_ELSE)


def _says_something(answer: Answer | NoAnswer) -> bool:
    return isinstance(answer, Answer) and (answer.is_ok or answer.status in HAS_NONE)
