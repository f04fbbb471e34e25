"""All that Prometheus scrapes: kept in this process, from zero at each start, as counters there are."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from fleetagent.adapters.metrics import catalogue
from fleetagent.adapters.metrics.figures import figures, machines, truths
from fleetagent.adapters.metrics.process import ProcessSeries
from fleetagent.adapters.metrics.series import AgentSeries
from fleetagent.domain.model import CallsFrom, Reply
from fleetagent.domain.observation import Observation
from fleetagent.domain.records import AgentKey, Run
from fleetagent.domain.resource import Condition, FleetAgentSpec, FleetAgentStatus
from fleetagent.domain.retention import TableSize
from fleetagent.errors import BadPrompt, BadReply, BadResource, PromptTooLong, TryLater
from fleetagent.ports.telemetry import ActionCame, LeaseChange

ANSWERED, CANCELLED = "Answered", "Cancelled"
FAILURES: Final = {
    TryLater: "Unavailable",
    PromptTooLong: "PromptTooLong",
    BadReply: "BadReply",
    BadPrompt: "InvalidPrompt",
    BadResource: "Refused",
}
"""What a request came to when it was not answered: a small set, so that the number of series stays small."""

FROM_ZERO: Final = (
    (catalogue.RUNS, ("Failed", "Schedule")),
    (catalogue.EVENTS, ("Warning", "MachineAdopted")),
)
"""What alerts go by: a series that begins with its first case never rises, as Prometheus sees it."""


class Metrics:
    """Implements `ports.Meter`. Series carry the agent's namespace and name, and end with the agent."""

    def __init__(self) -> None:
        self._process = ProcessSeries()
        self._agents = AgentSeries(catalogue.FAMILIES)
        self._began: dict[AgentKey, float] = {}

    def watch_turns(self, active: Callable[[], bool]) -> None:
        """Of several replicas: ask this, at each scrape, whether it is our turn."""
        self._process.watch_turns(active)

    def parts(self) -> Iterator[bytes]:
        """All of it in the text format that Prometheus scrapes, in parts of milliseconds each."""
        self._process.agents.set(self._agents.agents)
        yield self._process.text()
        yield from self._agents.parts()

    def text(self) -> bytes:
        """As `parts`, at once."""
        return b"".join(self.parts())

    # --- runs ---

    def run_began(self, key: AgentKey, run: Run, due_at: datetime | None) -> None:
        """See `ports.Meter.run_began`."""
        self._began[key] = time.monotonic()
        self._agents.put(key, catalogue.RUN_STARTED, value=run.started_at.timestamp())
        self._agents.put(key, catalogue.OLDEST_TRIGGER, value=None)
        if due_at is not None:
            self._process.delay_seconds.observe(max(0.0, (run.started_at - due_at).total_seconds()))

    def run_ended(self, key: AgentKey, run: Run, outcome: str) -> None:
        """See `ports.Meter.run_ended`."""
        now = time.monotonic()
        seconds = now - self._began.pop(key, now)
        self._agents.put(key, catalogue.RUN_STARTED, value=None)
        self._agents.add(key, catalogue.RUNS, outcome, run.calls.kinds[0] if run.calls.kinds else "")
        self._agents.add(key, catalogue.RUN_SECONDS, by=seconds)
        self._process.run_seconds.observe(seconds)

    def waits(self, key: AgentKey, since: datetime | None) -> None:
        """See `ports.Meter.waits`."""
        self._agents.put(key, catalogue.OLDEST_TRIGGER, value=None if since is None else since.timestamp())

    # --- what is reported ---

    def reported(
        self,
        key: AgentKey,
        spec: FleetAgentSpec,
        status: FleetAgentStatus,
        seen: Observation | None,
        *,
        wakes: int,
        waiting: int,
    ) -> None:
        """See `ports.Meter.reported`."""
        if not self._is_kept(key):
            for family, labels in FROM_ZERO:
                self._agents.add(key, family, *labels, by=0)
        for family, value in figures(spec, status, seen, wakes=wakes, waiting=waiting):
            self._agents.put(key, family, value=None if value is None else float(value))
        if spec.alerts is None:
            self._agents.put(key, catalogue.UNDELIVERED, value=None)
        if seen is not None:
            self._agents.put_all(key, catalogue.MACHINES, machines(seen))
        self.conditions(key, status.conditions)

    def conditions(self, key: AgentKey, conditions: Iterable[Condition]) -> None:
        """See `ports.Meter.conditions`."""
        self._agents.put_all(key, catalogue.CONDITION, truths(conditions))

    def fields_dropped(self, count: int) -> None:
        """See `ports.Meter.fields_dropped`."""
        self._process.dropped.set(count)

    # --- what happens ---

    def compacted(self, key: AgentKey, method: str) -> None:
        """See `ports.Meter.compacted`."""
        self._agents.add(key, catalogue.COMPACTIONS, method)

    def acted(self, key: AgentKey, kind: str, state: ActionCame) -> None:
        """See `ports.Meter.acted`."""
        self._agents.add(key, catalogue.ACTIONS, kind, state)

    def refused(self, key: AgentKey, kind: str, code: str) -> None:
        """See `ports.Meter.refused`."""
        self._agents.add(key, catalogue.REFUSALS, kind, code)
        self._agents.add(key, catalogue.ACTIONS, kind, "refused")

    def said(self, key: AgentKey, kind: str, reason: str) -> None:
        """An Event about the agent, Normal or Warning, was to be written."""
        self._agents.add(key, catalogue.EVENTS, kind, reason)

    def notified(self, key: AgentKey, outcome: str) -> None:
        """See `ports.Meter.notified`."""
        if self._is_kept(key):
            self._agents.add(key, catalogue.NOTIFICATIONS, outcome)

    def undelivered(self, key: AgentKey, count: int) -> None:
        """See `ports.Meter.undelivered`."""
        if self._is_kept(key):
            self._agents.put(key, catalogue.UNDELIVERED, value=count)

    def _is_kept(self, key: AgentKey) -> bool:
        """Whether it was reported on: a message on its way may arrive after the agent was handed over."""
        return self._agents.has(key, catalogue.TARGET)

    def lease(self, change: LeaseChange) -> None:
        """See `ports.Meter.lease`."""
        self._process.leases.labels(change).inc()

    def tables(self, sizes: Mapping[str, TableSize]) -> None:
        """See `ports.Meter.tables`."""
        self._process.tables(sizes)

    def market_call(self, call: str, outcome: str) -> None:
        """One exchange with the market is over, whoever's it was."""
        self._process.market.labels(call, outcome).inc()

    # --- the model ---

    @contextmanager
    def asking(self, key: AgentKey) -> Iterator[None]:
        """Count a request to the model by what it comes to, and its time."""
        began, outcome = time.monotonic(), CANCELLED  # the run was ended, or took too long, before anything came back
        try:
            yield
            outcome = ANSWERED
        except (TryLater, PromptTooLong, BadReply, BadPrompt, BadResource) as error:
            outcome = next(word for kind, word in FAILURES.items() if isinstance(error, kind))
            raise
        finally:
            seconds = time.monotonic() - began
            self._agents.add(key, catalogue.MODEL_REQUESTS, outcome)
            self._agents.add(key, catalogue.MODEL_SECONDS, by=seconds)
            self._process.model_seconds.observe(seconds)

    def answered(self, key: AgentKey, reply: Reply) -> None:
        """Count the tokens of an answer and of those thrown away before it, as far as the server counted them."""
        for each in (*(thrown_away.usage for thrown_away in reply.discarded), reply.usage):
            for kind, tokens in (
                ("input", each.prompt_tokens),
                ("cached_input", each.cached_tokens),
                ("output", each.completion_tokens),
            ):
                self._agents.add(key, catalogue.MODEL_TOKENS, kind, by=tokens or 0)
        if reply.calls_from is not CallsFrom.CALLS:
            self._agents.add(key, catalogue.MISPLACED, reply.calls_from, by=len(reply.calls))

    # --- the end ---

    def forget(self, key: AgentKey) -> None:
        """See `ports.Meter.forget`."""
        self._agents.forget(key)
        self._began.pop(key, None)

    def rest(self) -> None:
        """See `ports.Meter.rest`."""
        self._agents.forget_all()
        self._began.clear()
        self._process.rest()
