"""Metrics in Prometheus' format: kept in this process, from zero at each start, as counters there are."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from fleetagent.domain.model import CallsFrom, ModelRequest, NothingUsable, Reply
from fleetagent.domain.records import AgentKey
from fleetagent.errors import BadPrompt, BadReply, BadResource, PromptTooLong, TryLater
from fleetagent.ports import Model

AGENT: Final = ("namespace", "name")
ANSWERED = "Answered"
MODEL_SECONDS = (0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
FAILURES: Final = {
    TryLater: "Unavailable",
    PromptTooLong: "PromptTooLong",
    BadReply: "BadReply",
    BadPrompt: "InvalidPrompt",
    BadResource: "Refused",
}
"""What a request came to when it was not answered: a small set, so that the number of series stays small."""


class Metrics:
    """Implements `ports.Meter`. Series carry the agent's namespace and name, and end with the agent."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._active = Gauge(
            "fleetagent_active",
            "1 while this process works, 0 while it stands by for another replica",
            registry=self._registry,
        )
        self._active.set(1)
        self._compactions = Counter(
            "fleetagent_compactions", "Compactions of the conversation", (*AGENT, "method"), registry=self._registry
        )
        self._requests = Counter(
            "fleetagent_model_requests",
            "Requests to the model, repetitions within one not counted",
            (*AGENT, "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "fleetagent_model_request_seconds",
            "How long one request to the model took, its repetitions and waits included",
            AGENT,
            buckets=MODEL_SECONDS,
            registry=self._registry,
        )
        self._tokens = Counter(
            "fleetagent_model_tokens",
            "Tokens as the model's server counted them; input includes cached_input",
            (*AGENT, "kind"),
            registry=self._registry,
        )
        self._context = Gauge(
            "fleetagent_context_tokens",
            "The server's count of the last request's prompt",
            AGENT,
            registry=self._registry,
        )
        self._misplaced = Counter(
            "fleetagent_model_misplaced_calls",
            "Tool calls that stood in text or reasoning: the server's tool parser does not fit the model",
            (*AGENT, "place"),
            registry=self._registry,
        )
        self._refusals = Counter(
            "fleetagent_refusals",
            "Actions that a guardrail refused, by its code",
            (*AGENT, "kind", "code"),
            registry=self._registry,
        )
        self._dropped = Gauge(
            "fleetagent_status_fields_dropped",
            "Fields of the last status that the API server did not keep: above 0 where the cluster's CRD is outdated",
            registry=self._registry,
        )
        self._per_agent = (
            self._compactions,
            self._refusals,
            self._requests,
            self._seconds,
            self._tokens,
            self._context,
            self._misplaced,
        )

    def watch_turns(self, active: Callable[[], bool]) -> None:
        """Of several replicas: ask this, at each scrape, whether it is our turn."""
        self._active.set_function(active)

    def text(self) -> bytes:
        """All of it, in the text format that Prometheus scrapes."""
        return generate_latest(self._registry)

    def compacted(self, key: AgentKey, method: str) -> None:
        """See `ports.Meter.compacted`."""
        self._compactions.labels(key.namespace, key.name, method).inc()

    def refused(self, key: AgentKey, kind: str, code: str) -> None:
        """See `ports.Meter.refused`."""
        self._refusals.labels(key.namespace, key.name, kind, code).inc()

    def fields_dropped(self, count: int) -> None:
        """See `ports.Meter.fields_dropped`."""
        self._dropped.set(count)

    @contextmanager
    def asking(self, key: AgentKey) -> Iterator[None]:
        """Count a request to the model by what it comes to, and its time."""
        began, outcome = time.monotonic(), ANSWERED
        try:
            yield
        except (TryLater, PromptTooLong, BadReply, BadPrompt, BadResource) as error:
            outcome = next(word for kind, word in FAILURES.items() if isinstance(error, kind))
            raise
        finally:
            self._requests.labels(key.namespace, key.name, outcome).inc()
            self._seconds.labels(key.namespace, key.name).observe(time.monotonic() - began)

    def answered(self, key: AgentKey, reply: Reply) -> None:
        """Count the tokens of an answer and of those thrown away before it, as far as the server counted them."""
        usage = reply.usage
        for each in (*(thrown_away.usage for thrown_away in reply.discarded), usage):
            for kind, tokens in (
                ("input", each.prompt_tokens),
                ("cached_input", each.cached_tokens),
                ("output", each.completion_tokens),
            ):
                self._tokens.labels(key.namespace, key.name, kind).inc(tokens or 0)
        if reply.calls_from is not CallsFrom.CALLS:
            self._misplaced.labels(key.namespace, key.name, reply.calls_from).inc(len(reply.calls))
        if usage.prompt_tokens:
            self._context.labels(key.namespace, key.name).set(usage.prompt_tokens)

    def forget(self, key: AgentKey) -> None:
        """The agent is gone: so are its series."""
        for metric in self._per_agent:
            metric.remove_by_labels({"namespace": key.namespace, "name": key.name})


@dataclass(frozen=True, slots=True)
class MeteredModel:
    """A model whose requests are counted for one agent. Implements `ports.Model`."""

    model: Model
    metrics: Metrics
    key: AgentKey

    async def reply(self, request: ModelRequest) -> Reply:
        """See `ports.Model.reply`."""
        with self.metrics.asking(self.key):
            try:
                reply = await self.model.reply(request)
            except NothingUsable as error:
                if error.reply is not None:
                    self.metrics.answered(self.key, error.reply)
                raise
        self.metrics.answered(self.key, reply)
        return reply

    async def context_window(self) -> int | None:
        """See `ports.Model.context_window`."""
        return await self.model.context_window()

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `ports.Model.count_tokens`."""
        return await self.model.count_tokens(request)
