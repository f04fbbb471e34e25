"""Many runs of one agent against a real model server: what it was sent, what it counted, what we had projected."""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import httpx
import httpx2

from fleetagent.adapters.model.client import OpenAIModel
from fleetagent.adapters.vast.client import VastMarkets
from fleetagent.adapters.vast.pacing import NO_LIMITS, Pacer
from fleetagent.adapters.vast.search import SearchMemory
from fleetagent.agent.compact import Compact
from fleetagent.agent.transcript import Transcript
from fleetagent.dev.llama import MODEL
from fleetagent.domain.model import JsonObject
from fleetagent.domain.schedule import Trigger
from fleetagent.ports import Model
from support.on_postgres import OnPostgres
from support.servers import MARKET_KEY, Market
from support.stores import Process

WINDOW_TOKENS = 3_072
"""Budget and the server's context alike, to the token; llama.cpp rounds a context up to a multiple of 256."""

MOST_OUTPUT_TOKENS = 64

GRAMMAR = r"""
root ::= call | call call | words
call ::= "<tool_call>\n{\"name\": \"" asked "}}\n</tool_call>"
asked ::= looking "\", \"arguments\": {" | launch | stop | cancel | alert
looking ::= "get_fleet" | "get_demand" | "reboot_machine"
launch ::= "launch_instance\", \"arguments\": {\"offer_id\": \"" [0-9]{1,8} "\""
stop ::= "stop_instance\", \"arguments\": {\"instance_id\": \"" [0-9]{1,8} "\""
cancel ::= "cancel_check\", \"arguments\": {\"id\": " [0-9]{1,2}
alert ::= "raise_alert\", \"arguments\": {\"severity\": \"info\", \"message\": \"" [a-z ]{10,60} "\""
words ::= [^<{`]{20,300}
"""
"""What the model says is nonsense; so it says it in the form of calls now and then, one of an unknown tool too."""

ONE_WITH_LONG_ANSWERS = GRAMMAR.replace('"get_fleet"', '"get_offers" | "plan_capacity"')
INCLINED_TO_CALL = {"logit_bias": {"<": 4.0}, "logit_bias_type": "tokens"}
EVENTS = "machine 33014980 is online and proves at 42.5 proofs/h"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One chat completion as it went over the wire."""

    body: JsonObject
    status: int
    answer: JsonObject

    @property
    def is_summary(self) -> bool:
        """A request for a summary has no tools."""
        return "tools" not in self.body

    @property
    def prompt_tokens(self) -> int:
        """As the server counted; 0 when it refused."""
        return int(self.answer.get("usage", {}).get("prompt_tokens", 0))


@dataclass(frozen=True, slots=True)
class Projection:
    """What we expected the server to count, just before the request left; `anchored` on a count of its own."""

    tokens: int
    anchored: bool
    counted: int

    @property
    def error(self) -> float:
        """As a share of the count."""
        return (self.tokens - self.counted) / self.counted


class Wire(httpx2.AsyncBaseTransport):
    """Passes everything on and remembers the chat completions."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self.exchanges: list[Exchange] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Ask the server, read its whole answer."""
        response = await self._inner.handle_async_request(request)
        content = await response.aread()
        if request.url.path.endswith("/chat/completions"):
            body = json.loads(await request.aread())
            answer = json.loads(content)
            self.exchanges.append(Exchange(body, response.status_code, answer if isinstance(answer, dict) else {}))
        return response

    async def aclose(self) -> None:
        """Give the connections back."""
        await self._inner.aclose()


@dataclass
class Watch:
    """What happens on the wire, and what was projected before each request of a run."""

    wire: Wire = field(default_factory=Wire)
    before: dict[int, tuple[int, bool]] = field(default_factory=dict)

    def note(self, transcript: Transcript) -> None:
        """The next exchange is this request."""
        anchored = bool(transcript.counts.anchors)
        self.before[len(self.wire.exchanges)] = transcript.projected(), anchored

    def projections(self) -> list[Projection]:
        """Of the requests that were answered."""
        asked = ((exchange, self.before.get(place)) for place, exchange in enumerate(self.wire.exchanges))
        return [Projection(*told, e.prompt_tokens) for e, told in asked if told is not None and e.status == 200]


class WatchedCompact(Compact):
    """The real one; what is projected once it has made room is noted."""

    def __init__(self, watch: Watch, *parts: Any) -> None:
        super().__init__(*parts)
        self._watch = watch

    async def __call__(self, transcript: Transcript, model: Model, *, within_a_run: bool) -> None:
        """Make room, then take note."""
        await super().__call__(transcript, model, within_a_run=within_a_run)
        self._watch.note(transcript)


@dataclass
class OnLlama(OnPostgres):
    """An agent whose model is real, and whose waits are, too."""

    def model(self) -> OpenAIModel:
        """The server's own."""
        return OpenAIModel(
            base_url=self.server.url, api_key=None, name=MODEL, http=self.http, habits=self.habits, sizes=self.sizes
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What many runs in one session came to."""

    outcomes: Counter[str]
    wire: tuple[Exchange, ...]
    projections: tuple[Projection, ...]
    compactions: Counter[str]
    seconds: float

    @property
    def refused(self) -> list[Exchange]:
        """What the server did not answer."""
        return [e for e in self.wire if e.status != 200]

    def errors(self, *, anchored: bool) -> list[float]:
        """How far projections were off, as shares of the count, the smallest first."""
        return sorted(abs(p.error) for p in self.projections if p.anchored is anchored)


@asynccontextmanager
async def on_llama(process: Process, server: Any, market: Market, watch: Watch) -> AsyncIterator[OnLlama]:
    """An agent without a run yet, on a real model server and a simulated market."""
    async with httpx2.AsyncClient(transport=watch.wire, trust_env=False) as http, httpx.AsyncClient() as market_http:
        markets = VastMarkets(market_http, Pacer(NO_LIMITS), SearchMemory())
        account = markets.market(api_key=MARKET_KEY, base_url=market.base_url, worker_url_env="WORKER_URL")
        yield OnLlama(process, server, http, market=account, compact=partial(WatchedCompact, watch))


async def many_runs(on: OnLlama, watch: Watch, runs: int) -> Report:
    """One session: the clock's runs, people's words, events, requests; nonsense in plain words and as calls."""
    began, outcomes = time.monotonic(), Counter[str]()
    said: JsonObject
    for n in range(1, runs + 1):
        said = {"temperature": 0.9, "seed": n}
        if n % 2:
            said |= INCLINED_TO_CALL | {"grammar": ONE_WITH_LONG_ANSWERS if n % 11 == 1 else GRAMMAR}
        on.spec = {
            "model": {
                "name": MODEL,
                "timeout": "10m",
                "maxOutputTokens": MOST_OUTPUT_TOKENS,
                "parameters": said,
            },
            "context": {"tokenBudget": WINDOW_TOKENS},
            "demand": {"static": {"active": True}},
        }
        if n % 4 == 0:
            await on.say(f"{n}: prefer hosts in the EU, and never pay more than 0.{n:03} USD per proof")
        if n % 7 == 0:
            await on.process.runs.persist((await on.record()).id, Trigger.EVENT, f"event {n}", EVENTS)
        ended = await on.run(Trigger.REQUEST if n % 5 == 0 else Trigger.SCHEDULE)
        outcomes[ended.outcome] += 1
    rows = await on.process.rows("SELECT method FROM compactions")
    return Report(
        outcomes,
        tuple(watch.wire.exchanges),
        tuple(watch.projections()),
        Counter(row["method"] for row in rows),
        time.monotonic() - began,
    )


def told(report: Report) -> str:
    """The figures, a line each."""
    errors, guesses = report.errors(anchored=True), report.errors(anchored=False)
    largest = max(e.prompt_tokens for e in report.wire)
    return "\n".join(
        [
            f"{sum(report.outcomes.values())} runs in one session, {report.seconds:.0f} s",
            f"{len(report.wire)} requests, {len(report.refused)} refused",
            f"outcomes: {_counts(report.outcomes)}; compactions: {_counts(report.compactions)}",
            f"largest prompt: {largest} of {WINDOW_TOKENS} tokens",
            f"next prompt, after a count ({len(errors)}): {_spread(errors)}",
            f"next prompt, before any count or after a compaction ({len(guesses)}): {_spread(guesses)}",
        ]
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common()) or "none"


def _spread(errors: list[float]) -> str:
    if not errors:
        return "none"
    p95 = errors[-(-len(errors) * 95 // 100) - 1]
    return f"off by {median(errors):.1%} (median), {p95:.1%} (p95), {errors[-1]:.1%} (worst)"
