"""The agent's pages with a short past and a long one, and what an open page costs the operator."""

import http.client
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.api import MESSAGES_OF_A_RUN, fill
from bench.latency import Latencies
from bench.machine import footprint
from bench.page import Parts, Table, met
from bench.world import NAMESPACE, Annotator, a_settled_fleet, a_world, say, wait_for_quiet

from support.browser import Look, a_chromium
from support.people import READS, a_person
from support.stage import AS_INSTALLED, NAME, Stage

SHORT, LONG = 10_000, 1_000_000
"""Messages."""
FIRST_BYTE_MS, RATIO = 50.0, 1.2
PAUSE_SECONDS: Final = 0.02
RUN_EVERY_SECONDS: Final = 10.0
VIEWS: Final[Mapping[str, str]] = {
    "the agent": "",
    "runs": "/runs",
    "a run": "/runs/2",
    "the conversation": "/conversation",
    "everything said": "/conversation?view=everything",
    "fleet, ended machines too": "/fleet?ended=1",
    "spend": "/spend",
    "alerts": "/alerts",
    "actions": "/actions",
}
WORDS: Final = """\
From sending the request to the first byte of the answer, one request after the other over one connection, signed in; \
the agent has a fleet on target, and its past was written by SQL into its session. Client, operator, database and API \
server share the machine."""
OPEN_WORDS: Final = """\
CPU of the operator in a minute, with one run in ten seconds, which each time is news for the page: nobody looks, then \
one Chromium has the agent's page open. What Chromium itself takes is not counted."""


def measure(samples: int, seconds: float) -> Parts:
    """Each page so many times with either past, then an open one for so many seconds."""
    with a_world() as stage, Annotator.of(stage.cluster) as annotator:
        say("page: a fleet on target")
        stage.start_operator(**AS_INSTALLED)
        a_settled_fleet(stage)
        token = a_person(stage.cluster, stage.home, "reader", verbs=READS, namespaces=[NAMESPACE])
        fill(stage.database_url, SHORT // MESSAGES_OF_A_RUN)
        wait_for_quiet(stage)
        short = _first_bytes(stage, token, samples, f"{SHORT:,} messages")
        say(f"page: filling in {LONG:,} messages")
        fill(stage.database_url, (LONG - SHORT) // MESSAGES_OF_A_RUN)
        wait_for_quiet(stage)
        long = _first_bytes(stage, token, samples, f"{LONG:,} messages")
        opened = _open_page(stage, annotator, token, seconds)
    return Parts([_table(short, long), opened])


def _first_bytes(stage: Stage, token: str, samples: int, what: str) -> Mapping[str, Latencies]:
    say(f"page: {samples} of each page with {what}")
    connection = http.client.HTTPConnection("127.0.0.1", stage.web_port, timeout=30)
    taken: dict[str, list[float]] = {name: [] for name in VIEWS}
    for number in range(samples + 3):
        for name, below in VIEWS.items():
            time.sleep(PAUSE_SECONDS)
            began = time.perf_counter()
            path = f"/agents/{NAMESPACE}/{NAME}{below}"
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            first_byte = time.perf_counter() - began
            answer.read()
            if answer.status != http.client.OK:
                raise RuntimeError(f"{path}: {answer.status}")
            if number >= 3:  # templates are compiled when they are first used
                taken[name].append(first_byte)
    connection.close()
    return {name: Latencies.of(seconds) for name, seconds in taken.items()}


def _table(short: Mapping[str, Latencies], long: Mapping[str, Latencies]) -> Table:
    rows: list[Sequence[str]] = []
    for name, few in short.items():
        many = long[name]
        ratio = many.p50 / few.p50
        good = many.p50 <= FIRST_BYTE_MS and ratio <= RATIO
        goal = [f"≤ {FIRST_BYTE_MS:.0f} ms, ratio ≤ {RATIO}", met(good)] if name == "the agent" else ["", ""]
        figures = (f"{latency:.1f} ms" for latency in (few.p50, few.p99, many.p50, many.p99))
        rows.append([name, *figures, f"{ratio:.2f}", *goal])
    columns = ["", f"{SHORT:,} messages: p50", "p99", f"{LONG:,} messages: p50", "p99", "ratio", "goal", "met"]
    return Table(columns=columns, rows=rows, words=WORDS)


def _open_page(stage: Stage, annotator: Annotator, token: str, seconds: float) -> Table:
    say(f"page: {seconds:.0f} s without a page, then with one")
    alone = _cpu_of_a_minute(stage, annotator, seconds)
    with a_chromium() as chromium, Look.through(chromium, f"http://127.0.0.1:{stage.web_port}") as look:
        look.sign_in(token)
        look.open(f"/agents/{NAMESPACE}/{NAME}")
        asked: list[str] = []
        look.page.on("request", lambda request: asked.append(request.url))
        watched = _cpu_of_a_minute(stage, annotator, seconds, idle=lambda s: look.page.wait_for_timeout(1000 * s))
        requests = 60 * len(asked) / seconds
        look.check()
    rows = [
        ["CPU while nobody looks", f"{alone * 1000:.0f} ms"],
        ["CPU with one open page", f"{watched * 1000:.0f} ms"],
        ["the page's part", f"{(watched - alone) * 1000:.0f} ms"],
        ["requests of the page", f"{requests:.0f}"],
    ]
    return Table(columns=["in a minute", ""], rows=rows, words=OPEN_WORDS)


def _cpu_of_a_minute(
    stage: Stage, annotator: Annotator, seconds: float, idle: Callable[[float], None] = time.sleep
) -> float:
    """CPU seconds of the operator in a minute, with a run now and then."""
    pid = stage.operators[-1].pid
    before, began = footprint(pid).cpu_seconds, time.monotonic()
    while time.monotonic() < began + seconds:
        annotator.request_run(NAME, uuid.uuid4().hex)
        idle(RUN_EVERY_SECONDS)
    return (footprint(pid).cpu_seconds - before) * 60 / (time.monotonic() - began)
