"""Fifty browsers that watch a hundred agents at work: what they cost the operator, and whether a run waits for them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import yaml
from bench.machine import Footprint, footprint
from bench.page import Table, met
from bench.world import NAMESPACE, ONCE_A_DAY, a_world, add_agents, say, until
from prometheus_client.parser import text_string_to_metric_families

from support.people import READS, a_person
from support.stage import AS_INSTALLED, NAME, Stage

AGENTS, BROWSERS, PEOPLE = 100, 50, 5
MOST_CPU: Final = 0.10
INTERVAL: Final = {"schedule": {"interval": "1m"}}
LIST_PAUSE_SECONDS, AGENT_PAUSE_SECONDS = 10.0, 2.5
"""The least time between two refreshes, as page.js keeps it."""
WARM_UP_SECONDS: Final = 5.0
DELAY: Final = "fleetagent_run_start_delay_seconds"
LATE_FROM_SECONDS, LATER_MS = 0.5, 25.0
WORDS: Final = f"""\
FleetAgents without demand and machines, each with a run in a minute, one after the other; the operator at its default \
pace. Nobody looks, then {BROWSERS} browsers of {PEOPLE} people do: half have the list open, half an agent's page. \
They hold the stream of events, and fetch what a page fetches when it is told of a change. Delay: from the moment at \
which a run was due to its beginning, as the operator's own metric has it. Clients, operator, database and API server \
share the machine."""


@dataclass(slots=True)
class Browser:
    """What one page does: it listens, and fetches its live parts when it is told, but not too often."""

    events: str
    parts: Sequence[str]
    pause_seconds: float
    told: int = 0
    fetched: int = 0
    bytes: int = 0

    async def look(self, client: httpx.AsyncClient) -> None:
        """Until it is cancelled."""
        news = asyncio.Event()
        async with asyncio.TaskGroup() as both:
            both.create_task(self._refresh(client, news))
            async with client.stream("GET", self.events) as answer:
                answer.raise_for_status()
                async for line in answer.aiter_lines():
                    if line == "event: changed":
                        self.told += 1
                        news.set()

    async def _refresh(self, client: httpx.AsyncClient, news: asyncio.Event) -> None:
        last = 0.0
        while True:
            await news.wait()
            await asyncio.sleep(max(0.0, last + self.pause_seconds - time.monotonic()))
            news.clear()
            last = time.monotonic()
            for part in self.parts:
                answer = (await client.get(part)).raise_for_status()
                self.fetched += 1
                self.bytes += len(answer.content)


@dataclass(frozen=True, slots=True)
class Window:
    """Some time of an operator's life."""

    cpu_share: float
    rss_mib: float
    runs: int
    delay_ms: float
    """The mean."""
    late: int
    """Runs that began half a second after they were due, or later."""


def measure(seconds: float, agents: int = AGENTS) -> Table:
    """The same time twice, without and with browsers."""
    with a_world() as stage:
        say(f"watchers: {agents} FleetAgents")
        stage.start_operator(**AS_INSTALLED)
        add_agents(stage, agents)
        _work(stage, agents)
        tokens = [
            a_person(stage.cluster, stage.home, f"reader-{n}", verbs=READS, namespaces=[NAMESPACE])
            for n in range(PEOPLE)
        ]
        alone, _ = asyncio.run(_watched(stage, [], [], seconds))
        browsers = [_browser(number, agents) for number in range(BROWSERS)]
        watched, taken = asyncio.run(_watched(stage, browsers, tokens, seconds))
    return _table(agents, alone, watched, browsers, taken)


def _work(stage: Stage, agents: int) -> None:
    """From now on each has a run in a minute, and they do not have it together."""
    idle = {"demand": {"static": {"active": False}}}
    for number in range(agents):
        spec = ONCE_A_DAY | idle | INTERVAL
        manifest = stage.manifest(metadata={"name": f"{NAME}-{number:03}"}, spec=spec)
        began = time.monotonic()
        stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
        time.sleep(max(0.0, began + 60 / agents - time.monotonic()))
    scheduled = "SELECT count(DISTINCT agent_id) AS n FROM triggers WHERE kind = 'Schedule' AND claimed_by_run > 1"
    until(stage, lambda: stage.rows(scheduled)[0]["n"] >= agents, "each has had a scheduled run")


def _browser(number: int, agents: int) -> Browser:
    if number % 2:
        return Browser("/events", ["/lines"], LIST_PAUSE_SECONDS)
    agent = f"/agents/{NAMESPACE}/{NAME}-{number % agents:03}"
    return Browser(f"{agent}/events", [f"{agent}/now", f"{agent}/samples.json"], AGENT_PAUSE_SECONDS)


async def _watched(
    stage: Stage, browsers: Sequence[Browser], tokens: Sequence[str], seconds: float
) -> tuple[Window, float]:
    async with contextlib.AsyncExitStack() as stack:
        tasks = []
        for number, browser in enumerate(browsers):
            client = await stack.enter_async_context(_client(stage, tokens[number % len(tokens)]))
            tasks.append(asyncio.create_task(browser.look(client)))
        stack.push_async_callback(_end, tasks)
        await asyncio.sleep(WARM_UP_SECONDS)
        for browser in browsers:
            browser.told = browser.fetched = browser.bytes = 0
        say(f"watchers: {seconds:.0f} s with {len(browsers)} browsers")
        began, before = time.monotonic(), Taken.of(stage)
        await asyncio.sleep(seconds)
        for task in tasks:
            if task.done():
                task.result()  # a browser that ended has a reason
        taken = time.monotonic() - began
        return Taken.of(stage).since(before, taken), taken


@dataclass(frozen=True, slots=True)
class Taken:
    """What an operator has taken and done since its start."""

    footprint: Footprint
    runs: float
    delay_seconds: float
    in_time: float

    @classmethod
    def of(cls, stage: Stage) -> "Taken":
        """By now."""
        samples = [s for family in text_string_to_metric_families(stage.metrics()) for s in family.samples]
        delays = {(s.name.removeprefix(DELAY), s.labels.get("le", "")): s.value for s in samples if DELAY in s.name}
        in_time = delays["_bucket", str(LATE_FROM_SECONDS)]
        return cls(footprint(stage.operators[-1].pid), delays["_count", ""], delays["_sum", ""], in_time)

    def since(self, before: "Taken", seconds: float) -> Window:
        """What came in these seconds."""
        runs = self.runs - before.runs
        return Window(
            (self.footprint.cpu_seconds - before.footprint.cpu_seconds) / seconds,
            self.footprint.rss_mib,
            round(runs),
            1000 * (self.delay_seconds - before.delay_seconds) / max(1, runs),
            round(runs - (self.in_time - before.in_time)),
        )


@contextlib.asynccontextmanager
async def _client(stage: Stage, token: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token}"}
    base: dict[str, Any] = {"base_url": f"http://127.0.0.1:{stage.web_port}", "headers": headers}
    async with httpx.AsyncClient(**base, timeout=httpx.Timeout(30, read=60), trust_env=False) as client:
        yield client


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _table(agents: int, alone: Window, watched: Window, browsers: Sequence[Browser], seconds: float) -> Table:
    more = watched.cpu_share - alone.cpu_share
    later = watched.delay_ms - alone.delay_ms
    per_minute = 60 / seconds / len(browsers)
    told, fetched, size = (
        sum(values) * per_minute
        for values in zip(*((each.told, each.fetched, each.bytes) for each in browsers), strict=True)
    )
    rows = [
        ["CPU, share of a core", f"{alone.cpu_share:.1%}", f"{watched.cpu_share:.1%}", "", ""],
        ["CPU of the browsers", "", f"{more:.1%}", f"≤ {MOST_CPU:.0%}", met(more <= MOST_CPU)],
        ["runs", f"{alone.runs}", f"{watched.runs}", "", ""],
        [
            "delay of a run, mean",
            f"{alone.delay_ms:.0f} ms",
            f"{watched.delay_ms:.0f} ms",
            f"at most {LATER_MS:.0f} ms more",
            met(later <= LATER_MS),
        ],
        [f"runs later than {LATE_FROM_SECONDS} s", f"{alone.late}", f"{watched.late}", "", ""],
        ["RSS", f"{alone.rss_mib:.0f} MiB", f"{watched.rss_mib:.0f} MiB", "", ""],
        ["a browser in a minute", "", f"told {told:.0f} times, {fetched:.0f} answers, {size / 1024:.0f} KiB", "", ""],
    ]
    return Table(
        columns=[f"{agents} agents", "nobody", f"{len(browsers)} browsers", "goal", "met"], rows=rows, words=WORDS
    )
