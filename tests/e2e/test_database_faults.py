"""The way to the database goes silent, is cut, or is narrow: no run is lost, nothing is bought twice or forgotten."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import yaml

from support.ports import free_port
from support.stage import Stage
from support.steering import hold_model, release_model
from support.wire import Mode, Wire, a_wire

CUT_EVERY_S = 0.3
AGENTS = 10
LOOKS_FOR_S = 15.0
CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'fleetagent' AND datname = current_database()
"""
TRANSACTIONS_LEFT_OPEN = """
    SELECT query FROM pg_stat_activity
    WHERE application_name = 'fleetagent' AND datname = current_database()
        AND state IN ('idle in transaction', 'idle in transaction (aborted)')
        AND state_change < now() - interval '10 seconds'
"""
LOCKS = """
    SELECT locktype FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE application_name = 'fleetagent' AND datname = current_database() AND state = 'idle'
"""
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'fleetagent' AND datname = current_database()
"""


@pytest.fixture
def wire(stage: Stage) -> Iterator[Wire]:
    """The operator's only way to its database; the test has one of its own."""
    address = urlsplit(stage.database_url)
    assert address.port is not None
    with a_wire(address.port) as wire:
        told = address._replace(netloc=address.netloc.replace(f":{address.port}", f":{wire.port}"))
        stage.settings["database_url"] = told.geturl()
        yield wire


def the_memory_is_missed(stage: Stage) -> bool:
    return stage.condition("Ready").get("reason") == "MemoryUnavailable"


def numbers_only_rise(stage: Stage) -> bool:
    numbers = [run["run_id"] for run in stage.runs()]
    return numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("mode", [Mode.BLACK_HOLE, Mode.RESET], ids=["silent", "reset"])
def test_a_way_that_breaks_while_the_model_thinks_costs_a_run_and_no_more(stage: Stage, wire: Wire, mode: Mode) -> None:
    stage.start_operator()
    hold_model(stage)
    stage.apply()
    stage.wait_for(lambda: stage.model.get("state")["held"], "the model thinks")

    with wire.broken(mode):
        release_model(stage)
        stage.wait_for(lambda: the_memory_is_missed(stage), "it is said", 90)
        assert stage.market.get("state")["calls"]["create"] == 0

    stage.wait_for_target()
    assert numbers_only_rise(stage)
    assert stage.runs()[0]["state"] == "interrupted"
    assert stage.runs()[1]["triggers"] == ["Schedule"]
    stage.wait_for_books()


def test_a_machine_that_was_made_while_the_way_was_silent_is_known_afterwards_and_made_once(
    stage: Stage, wire: Wire
) -> None:
    stage.market.put("faults", {"create": {"kind": "slow", "seconds": 3, "times": 1}})
    stage.start_operator()
    stage.apply(spec={"target": {"proofsPerHour": 80}})
    stage.wait_for(lambda: stage.market.get("state")["calls"]["create"], "the market is asked")

    with wire.broken(Mode.BLACK_HOLE):
        stage.wait_for(lambda: the_memory_is_missed(stage), "its answer cannot be written down", 90)
        assert len(stage.market.live()) == 1

    stage.wait_for_target()
    assert stage.market.get("state")["created"] == 1
    assert numbers_only_rise(stage)
    stage.wait_for_books()


@contextmanager
def cut_again_and_again(url: str) -> Iterator[None]:
    """Each connection of the operator is ended by the server, whatever it does, several times a second."""
    over = threading.Event()

    def cut() -> None:
        with psycopg.connect(url, autocommit=True) as admin:
            while not over.wait(CUT_EVERY_S):
                admin.execute(CUT)

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        yield
    finally:
        over.set()
        cutting.join()


def test_connections_that_are_ended_in_every_phase_of_runs_change_nothing_of_what_is_bought(stage: Stage) -> None:
    stage.start_operator()
    hold_model(stage)
    stage.apply(spec={"schedule": {"interval": "10s", "skipUnchanged": False}})
    stage.wait_for(stage.runs, "it has begun")
    with cut_again_and_again(stage.database_url):
        release_model(stage)
        stage.wait_for(lambda: len(stage.runs()) >= 3, "some runs, well or not")

    stage.annotate(requested_at="in peace")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "in peace", "the request is served")
    stage.wait_for_target()
    assert numbers_only_rise(stage)
    stage.wait_for(lambda: not stage.rows(LOCKS), "no lock stays")
    stage.wait_for_books()


def test_ten_agents_that_wait_for_the_model_keep_no_connection_of_a_pool_of_two(stage: Stage) -> None:
    health = f"127.0.0.1:{free_port()}"
    stage.start_operator(database_pool="2", health_listen=health)
    hold_model(stage)
    for number in range(AGENTS):
        manifest = stage.manifest(metadata={"name": f"agent-{number}"}, spec={"target": {"proofsPerHour": 0}})
        stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
    stage.wait_for(lambda: stage.model.get("state")["held"] == AGENTS, "all ten wait")

    until, took_s = time.monotonic() + LOOKS_FOR_S, list[float]()
    while time.monotonic() < until:
        assert stage.rows(CONNECTIONS)[0]["count"] <= 4, "two of the pool, the probes' own and the leases' own"
        assert stage.rows(TRANSACTIONS_LEFT_OPEN) == []
        began = time.monotonic()
        assert httpx.get(f"http://{health}/readyz", trust_env=False, timeout=20).status_code == 200
        took_s.append(time.monotonic() - began)

    assert statistics.median(took_s) < 1  # a machine may stall for once
    release_model(stage)
    stage.wait_for_runs(AGENTS)
