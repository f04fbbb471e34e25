"""The probes while the database is busy or away, and while another replica goes first: soon answered, and true."""

import signal
import time
from urllib.parse import urlsplit

import httpx
import psycopg

from support.line import SILENT_SECONDS, a_line
from support.ports import free_port
from support.replicas import pretend, pretend_gone, with_peering
from support.stage import Stage
from support.steering import apply_idle
from support.wire import Mode, Wire, a_wire

ANSWERS_WITHIN_S = 1.5
TRIES = 3


def probe(health: str, what: str) -> int:
    """The status; an answer that takes longer than a second, and a bit, is none: three times, a machine may stall."""
    for _ in range(TRIES):
        began = time.monotonic()
        status = httpx.get(f"http://{health}/{what}", trust_env=False, timeout=15).status_code
        if time.monotonic() - began < ANSWERS_WITHIN_S:
            return status
    raise AssertionError(f"{what} took longer than {ANSWERS_WITHIN_S} s each time")


def by_wire(database_url: str, wire: Wire) -> str:
    """The same database, at the other end of a wire."""
    parts = urlsplit(database_url)
    return parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{wire.port}").geturl()


def test_a_pool_that_is_used_up_makes_no_replica_unready(stage: Stage) -> None:
    health = f"127.0.0.1:{free_port()}"
    stage.start_operator(health_listen=health, database_pool="2")
    apply_idle(stage)
    waiting = (
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )

    with psycopg.connect(stage.database_url) as other:
        other.execute("LOCK TABLE agents IN ACCESS EXCLUSIVE MODE")
        stage.annotate(requested_at="while all wait")
        stage.wait_for(lambda: stage.rows(waiting)[0]["n"] >= 1, "statements wait")
        answers = [(probe(health, "readyz"), probe(health, "healthz")) for _ in range(20)]

    assert set(answers) == {(200, 200)}
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "while all wait", "it is served afterwards")


def test_a_database_that_is_away_at_the_start_is_waited_for(stage: Stage) -> None:
    health = f"127.0.0.1:{free_port()}"
    with a_wire(urlsplit(stage.database_url).port or 5432) as wire:
        through = by_wire(stage.database_url, wire)
        with wire.broken(Mode.RESET):
            process = stage.start_operator(health_listen=health, database_url=through, silent_seconds="12")
            stage.wait_for(lambda: "the database cannot be used" in stage.log(), "it says what it waits for")
            since = time.monotonic()
            while time.monotonic() - since < 15:  # longer than anything may be silent once it works
                assert (probe(health, "healthz"), probe(health, "readyz")) == (200, 503)
                time.sleep(0.5)
        stage.wait_for(lambda: probe(health, "readyz") == 200, "ready")
        assert process.poll() is None
        assert (urlsplit(through).password or "no password") not in stage.log()


def test_told_to_end_while_it_waits_for_its_database_it_ends(stage: Stage) -> None:
    stage.start_operator(database_url=f"postgresql://u:pa55w0rd@127.0.0.1:{free_port()}/x")
    stage.wait_for(lambda: "the database cannot be used" in stage.log(), "it waits")
    assert "pa55" not in stage.log()

    stage.kill_operator(signal.SIGTERM)

    assert stage.operators[-1].returncode == 0


def test_a_database_in_a_black_hole_makes_it_not_ready_and_never_not_alive(stage: Stage) -> None:
    health = f"127.0.0.1:{free_port()}"
    with a_wire(urlsplit(stage.database_url).port or 5432) as wire:
        through = by_wire(stage.database_url, wire)
        stage.start_operator(health_listen=health, database_url=through, silent_seconds="12")
        apply_idle(stage)
        with wire.broken(Mode.BLACK_HOLE):
            stage.wait_for(lambda: probe(health, "readyz") == 503, "not ready")
            since = time.monotonic()
            while time.monotonic() - since < 15:
                assert (probe(health, "healthz"), probe(health, "readyz")) == (200, 503)
                time.sleep(0.5)
        stage.wait_for(lambda: probe(health, "readyz") == 200, "ready again")
        stage.annotate(requested_at="afterwards")
        stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "afterwards", "served", 60)


def test_a_replica_that_stands_by_is_ready_and_alive_by_its_peering(stage: Stage) -> None:
    with_peering(stage)
    pretend(stage, "somebody@laptop")
    with a_line(stage) as line:
        line.start_operator()
        since = time.monotonic()
        while time.monotonic() - since < SILENT_SECONDS + 5:
            assert (line.ready(), line.alive()[0]) == ((200, "ready\n"), 200)
            time.sleep(0.5)
        assert line.proxy.count(lambda seen: seen.watches) == 0

        with line.wire.broken(Mode.BLACK_HOLE):
            stage.wait_for(lambda: "the keep-alive of the peering is not answered" in line.ready()[1], "not ready")
            stage.wait_for(lambda: line.alive()[0] == 503, "not alive", SILENT_SECONDS + 10)
            assert line.alive()[1].startswith("the keep-alive of the peering was not heard for")
        stage.wait_for(lambda: (line.alive()[0], line.ready()[0]) == (200, 200), "well again")

        pretend_gone(stage, "somebody@laptop")
        apply_idle(stage)
        stage.wait_for(lambda: line.proxy.count(lambda seen: seen.watches) > 0, "its turn has come")
        assert (line.alive()[0], line.ready()[0]) == (200, 200)
