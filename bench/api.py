"""The API beside an operator at work: how long it takes at 50 requests a second, with a short past and a long one."""

import http.client
import itertools
import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
from bench.latency import Latencies
from bench.machine import footprint
from bench.page import Table
from bench.world import NAMESPACE, Annotator, a_settled_fleet, a_world, add_agents, say

from support.people import READS, a_person
from support.stage import AS_INSTALLED, NAME, Stage

PER_SECOND: Final = 50
AGENTS: Final = 50
RUNS: Final = 10_000
MESSAGES_OF_A_RUN: Final = 100
DAYS: Final = 60
"""Less than what retention keeps by default."""
CONNECTIONS: Final = 16
RUN_EVERY_SECONDS: Final = 1.0
WARM_UP_SECONDS: Final = 3.0

WORDS: Final = f"""\
{PER_SECOND} requests a second, in turn to all addresses, each by its own clock: a late answer makes no later request \
later, and counts from the moment at which it should have been sent. Client, operator, database and API \
server share the machine. Meanwhile the operator looks after {AGENTS} FleetAgents, one of them with a fleet on target, \
and has one run a second. The long past is {RUNS:,} runs with {RUNS * MESSAGES_OF_A_RUN:,} messages, written by SQL; \
pages are of 50 items, filters of the last rows search for what is not there. The caller's right is asked of the API \
server with the caller's token, and remembered shortly."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: which address, after how long, and how long it was."""

    address: str
    seconds: float
    length: int


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the API of a stage with a token of its own."""

    port: int
    token: str

    def get(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        """The answer's body; whatever is not 200 ends the bench."""
        connection.request("GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
        return body

    def connection(self) -> http.client.HTTPConnection:
        """Kept for many requests."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)


def measure(seconds: float) -> Table:
    """Twice the same requests: before the past is filled in, and after."""
    with a_world() as stage, Annotator.of(stage.cluster) as annotator:
        say(f"api: a fleet on target, then {AGENTS} FleetAgents")
        stage.start_operator(**AS_INSTALLED)
        a_settled_fleet(stage)
        add_agents(stage, AGENTS - 1)
        token = a_person(stage.cluster, stage.home, "reader", verbs=READS, namespaces=[NAMESPACE])
        reader = Reader(stage.web_port, token)
        short, short_cpu = _measured(stage, annotator, reader, seconds, "a short past")
        say(f"api: filling in {RUNS:,} runs with {RUNS * MESSAGES_OF_A_RUN:,} messages")
        fill(stage.database_url)
        long, long_cpu = _measured(stage, annotator, reader, seconds, "a long past")
    return _table(short, short_cpu, long, long_cpu)


def _measured(
    stage: Stage, annotator: Annotator, reader: Reader, seconds: float, what: str
) -> tuple[Sequence[Answer], float]:
    """The answers, and how much of a core the operator took."""
    addresses = _addresses(reader)
    pid = stage.operators[-1].pid
    with _at_work(annotator):
        _read(reader, addresses, WARM_UP_SECONDS)
        say(f"api: {seconds:.0f} s of {PER_SECOND} requests a second, with {what}")
        before, began = footprint(pid).cpu_seconds, time.monotonic()
        answers = _read(reader, addresses, seconds)
        return answers, (footprint(pid).cpu_seconds - before) / (time.monotonic() - began)


@contextmanager
def _at_work(annotator: Annotator) -> Iterator[None]:
    """Asks for runs, one agent after the other."""
    over = threading.Event()

    def work() -> None:
        names = itertools.cycle(f"{NAME}-{number:03}" for number in range(AGENTS - 1))
        while not over.wait(RUN_EVERY_SECONDS):
            annotator.request_run(next(names), uuid.uuid4().hex)

    with ThreadPoolExecutor(1) as worker:
        working = worker.submit(work)
        try:
            yield
        finally:
            over.set()
        working.result()


def _addresses(reader: Reader) -> Mapping[str, str]:
    """Every address that is read, by what the table calls it; those that name something name what is there."""
    here, connection = f"/namespaces/{NAMESPACE}/agents/{NAME}", reader.connection()
    runs = json.loads(reader.get(connection, f"{here}/runs?limit=1"))
    after, run_id = runs.get("next", ""), runs["items"][0]["runID"]
    newest = datetime.fromisoformat(runs["items"][0]["startedAt"]).astimezone(UTC)
    since, until = (f"{newest - timedelta(days=d):%Y-%m-%dT%H:%M:%SZ}" for d in (31, 30))
    below = {
        "the agent": "",
        "runs": "/runs",
        "runs, a later page": f"/runs?after={after}" if after else "/runs",
        "runs of a day a month ago": f"/runs?since={since}&until={until}",
        "runs that failed": "/runs?outcome=ContextFull",
        "one run": f"/runs/{max(1, run_id // 2)}",
        "sessions": "/sessions",
        "the conversation": "/conversation",
        "the conversation in the prompt": "/conversation?inPrompt=true",
        "compactions": "/compactions",
        "actions": "/actions",
        "actions that wait": "/actions?state=waiting",
        "wakes": "/wakes",
        "alerts": "/alerts",
        "machines": "/machines",
        "machines that are gone, too": "/machines?ended=true",
        "hosts": "/hosts",
        "spend": "/spend",
        "samples of a day": "/samples",
    }
    connection.close()
    return {"all agents": "/agents", **{name: f"{here}{path}" for name, path in below.items()}}


def _read(reader: Reader, addresses: Mapping[str, str], seconds: float) -> Sequence[Answer]:
    """At an even pace, whatever the answers do."""
    turn = itertools.cycle(addresses.items())
    began = time.monotonic() + 0.1
    due = [(began + n / PER_SECOND, *next(turn)) for n in range(int(seconds * PER_SECOND))]
    answers: list[Answer] = []
    waiting, lock = iter(due), threading.Lock()

    def read() -> None:
        connection = reader.connection()
        while True:
            with lock:
                at, name, path = next(waiting, (0.0, "", ""))
            if not name:
                connection.close()
                return
            time.sleep(max(0.0, at - time.monotonic()))
            length = len(reader.get(connection, path))
            answers.append(Answer(name, time.monotonic() - at, length))

    with ThreadPoolExecutor(CONNECTIONS) as readers:
        for done in [readers.submit(read) for _ in range(CONNECTIONS)]:
            done.result()
    return answers


def fill(database_url: str, runs: int = RUNS) -> None:
    """So many runs more for the agent with the fleet, in its session, as if it had run for two months."""
    with psycopg.connect(database_url, autocommit=True) as database:
        with database.transaction():
            given = {
                "name": NAME,
                "runs": runs,
                "each": MESSAGES_OF_A_RUN,
                "days": DAYS,
                "messages": runs * MESSAGES_OF_A_RUN,
            }
            for statement in _FILL:
                database.execute(f"WITH given AS ({_GIVEN}) {statement}", given)
        database.execute("VACUUM ANALYZE")


_GIVEN: Final = """
    SELECT a.id AS agent, a.session_id AS session, a.last_run_id AS run, s.last_seq AS seq,
        now() - %(days)s * interval '1 day' AS began, %(days)s * interval '1 day' / %(runs)s AS apart
    FROM agents a JOIN sessions s ON s.id = a.session_id WHERE a.name = %(name)s
"""
_FILL: Final = (
    """
    INSERT INTO runs (agent_id, run_id, session_id, state, outcome, quiet, lease_token, started_at, finished_at,
        triggers, summary, model_calls, tokens_in, tokens_out, usd)
    SELECT agent, run + n, session, 'finished', 'Held', true, 0, began + n * apart, began + n * apart, '["Schedule"]',
        'held: 9 machines prove 410 proofs per hour, two more are on their way', 3, 24000, 300, 0.0041
    FROM given, generate_series(1, %(runs)s) n
    """,
    """
    INSERT INTO messages (session_id, seq, agent_id, run_id, at, kind, role, content, tokens, left_prompt_because)
    SELECT session, seq + n, agent, run + 1 + (n - 1) / %(each)s, began + ((n - 1) / %(each)s) * apart, 'observation',
        'user', 'Run ' || n || repeat(': projected 485 proofs per hour of 500; ', 12), 150, 'quiet'
    FROM given, generate_series(1, %(messages)s) n
    """,
    """
    INSERT INTO actions (agent_id, run_id, intent_key, kind, by, state, args, refusal, created_at)
    SELECT agent, run + n, 'filled/' || run + n, 'launch', 'model', 'refused',
        '{"offer_id": "7", "reason": "for the gap"}',
        '{"code": "OverHourlyBudget", "sentence": "4.20 USD/h would pass the budget of 4.00 USD/h"}',
        began + n * apart
    FROM given, generate_series(5, %(runs)s, 5) n
    """,
    """
    INSERT INTO compactions (agent_id, session_id, run_id, method, tokens_before, tokens_after, summary, at)
    SELECT agent, session, run + n, 'Summary', 24000, 9000, repeat('Held. ', 300), began + n * apart
    FROM given, generate_series(50, %(runs)s, 50) n
    """,
    """
    INSERT INTO alerts (agent_id, run_id, code, severity, message, state, created_at, told_at, resolved_at)
    SELECT agent, run + n, 'FleetUnknown', 'warning', 'the list failed', 'resolved', began + n * apart,
        began + n * apart, began + n * apart
    FROM given, generate_series(20, %(runs)s, 20) n
    """,
    """
    INSERT INTO wakes (agent_id, at, reason, state, asked_by_run, processed_at, created_at)
    SELECT agent, began + n * apart, 'look', 'processed', run + n, began + n * apart, began + n * apart
    FROM given, generate_series(10, %(runs)s, 10) n
    """,
    """
    INSERT INTO samples SELECT agent, began + n * interval '30 s', 9, 2, 410, 485, 500, 3.42
    FROM given, generate_series(1, %(days)s * 2880 - 10) n ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO spend SELECT agent, CAST(began AS date) + n, 'fleet', 51.2, 0
    FROM given, generate_series(0, %(days)s - 1) n ON CONFLICT DO NOTHING
    """,
    """
    , counted AS (
        UPDATE sessions SET last_seq = last_seq + %(messages)s FROM given WHERE sessions.id = given.session
    )
    UPDATE agents SET last_run_id = last_run_id + %(runs)s FROM given WHERE agents.id = given.agent
    """,
)


def _table(short: Sequence[Answer], short_cpu: float, long: Sequence[Answer], long_cpu: float) -> Table:
    by_address: dict[str, tuple[list[Answer], list[Answer]]] = defaultdict(lambda: ([], []))
    for side, answers in enumerate((short, long)):
        for answer in answers:
            by_address[answer.address][side].append(answer)
    rows = [["all of them", *_figures(short), *_figures(long), ""]]
    rows += [[name, *_figures(few), *_figures(many), _size(many)] for name, (few, many) in by_address.items()]
    rows.append(["operator, of a core", f"{short_cpu:.0%}", "", f"{long_cpu:.0%}", "", ""])
    return Table(
        columns=["", "short past: p50", "p99", "long past: p50", "p99", "answer at most"],
        rows=rows,
        words=WORDS,
    )


def _figures(answers: Sequence[Answer]) -> tuple[str, str]:
    found = Latencies.of([answer.seconds for answer in answers])
    return f"{found.p50:.1f} ms", f"{found.p99:.1f} ms"


def _size(answers: Sequence[Answer]) -> str:
    return f"{max(answer.length for answer in answers) / 1024:.1f} KiB"
