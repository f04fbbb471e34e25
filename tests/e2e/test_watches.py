"""Watches that are cut, silent, refused or ended: what was missed is served afterwards, or the process says so."""

import time
from collections.abc import Iterator

import pytest
import yaml

from support.line import SERVED_WITHIN_S, SILENT_SECONDS, Line, a_line
from support.proxy import GONE, Seen
from support.stage import ACCOUNT, NAME, Stage
from support.steering import IDLE, apply_idle
from support.wire import Mode

WATCH = "the watch of namespace"
RUNS_OF = "SELECT run_id FROM runs JOIN agents a ON a.id = agent_id WHERE a.name = %s ORDER BY started_at"


@pytest.fixture
def line(stage: Stage) -> Iterator[Line]:
    """An operator at the end of a line, with one idle agent."""
    with a_line(stage) as ready:
        ready.start_operator()
        apply_idle(stage)
        yield ready


def call(line: Line, value: str) -> None:
    """What only the watch tells: a request, and an agent that is new."""
    line.stage.annotate(requested_at=value)
    second = line.stage.manifest(metadata={"name": value}, spec=IDLE)
    line.stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(second))


def wait_until_served(line: Line, value: str, within_s: float = SERVED_WITHIN_S) -> None:
    stage = line.stage
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == value, f"request {value} is served", within_s)
    stage.wait_for(lambda: stage.resource(value).get("status", {}).get("lastRun"), f"agent {value} runs", within_s)
    stage.wait_for(lambda: line.ready()[0] == 200, "ready again", within_s)
    assert line.alive()[0] == 200
    assert [run["state"] for run in stage.runs()] == ["finished"] * len(stage.runs())
    assert line.stage.operators[-1].poll() is None


@pytest.mark.parametrize("mode", [Mode.RESET, Mode.BLACK_HOLE])
def test_what_happened_while_the_wire_was_broken_is_served_when_it_is_well(line: Line, mode: Mode) -> None:
    with line.wire.broken(mode):
        line.stage.wait_for(lambda: line.ready()[0] == 503, "not ready")
        call(line, "meanwhile")
        assert WATCH in line.ready()[1]
        assert line.alive()[0] == 200

    wait_until_served(line, "meanwhile")


def test_a_watch_that_is_silent_for_too_long_is_not_hidden_by_beats(line: Line) -> None:
    with line.wire.broken(Mode.BLACK_HOLE):
        line.stage.wait_for(lambda: line.alive()[0] == 503, "not alive", SILENT_SECONDS + 10)
        said = line.alive()[1]
        call(line, "afterwards")

    assert said.count("\n") == 1
    assert f"{WATCH} {line.stage.namespace} was not heard for" in said
    assert "at last: " in said
    assert "not alive: the watch of namespace" in line.stage.log()
    wait_until_served(line, "afterwards", 30)


def test_a_watch_that_has_expired_begins_anew(line: Line) -> None:
    assert line.proxy.say_in_watches({"type": "ERROR", "object": GONE}) == 1
    call(line, "expired")

    wait_until_served(line, "expired")


def test_watches_that_end_at_once_are_not_opened_as_fast_as_they_end(line: Line) -> None:
    line.proxy.watch_ends_at_once = True
    line.proxy.end_watches()
    before = line.proxy.count(lambda seen: seen.watches)
    time.sleep(5)  # the rate is what is measured
    asked = line.proxy.count(lambda seen: seen.watches) - before
    call(line, "endings")
    line.proxy.watch_ends_at_once = False

    assert 2 <= asked <= 7
    wait_until_served(line, "endings")


def test_stale_watches_lose_no_request_and_serve_none_twice(line: Line) -> None:
    line.proxy.watch_lag_seconds = 2
    for number in range(20):
        line.stage.annotate(requested_at=f"stale-{number}")
    call(line, "stale-last")

    wait_until_served(line, "stale-last", 30)
    line.proxy.watch_lag_seconds = 0
    values = [r["value"] for r in line.stage.rows("SELECT value FROM triggers WHERE kind = 'Request' ORDER BY id")]
    assert values[-1] == "stale-last"
    assert len(values) == len(set(values))
    numbers = [run["run_id"] for run in line.stage.rows(RUNS_OF, NAME)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_with_no_agent_at_all_renewed_watches_are_a_sign_of_life(stage: Stage) -> None:
    with a_line(stage) as line:
        line.start_operator()
        until = time.monotonic() + SILENT_SECONDS + 4
        while time.monotonic() < until:
            assert line.alive()[0] == 200
            time.sleep(0.5)
        assert line.proxy.count(lambda seen: seen.watches) >= 3


def test_a_right_that_was_taken_away_for_a_while_is_named_and_then_all_is_served(line: Line) -> None:
    stage = line.stage
    binding = yaml.safe_load(stage.cluster.kubectl("-n", stage.namespace, "get", "rolebinding", ACCOUNT, "-o", "yaml"))
    stage.cluster.kubectl("-n", stage.namespace, "delete", "rolebinding", ACCOUNT)
    stage.wait_for(lambda: "403 Forbidden" in line.ready()[1], "named")
    assert line.alive()[0] == 200
    call(line, "forbidden")
    del binding["metadata"]["resourceVersion"], binding["metadata"]["uid"]
    stage.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(binding))

    wait_until_served(line, "forbidden")


def of_kopf(seen: Seen) -> bool:
    """Lists and watches of FleetAgents."""
    return seen.path.endswith("/fleetagents")


@pytest.mark.parametrize(("status", "words"), [(403, "403 Forbidden"), (500, "500 Internal Server Error")])
def test_a_refusal_that_stays_is_not_alive_and_all_is_served_when_it_is_over(
    line: Line, status: int, words: str
) -> None:
    with line.proxy.refusing(status, of_kopf):
        line.proxy.end_watches()
        line.stage.wait_for(lambda: line.alive()[0] == 503, "not alive", SILENT_SECONDS + 10)
        assert words in line.alive()[1]
        call(line, "refused")

    wait_until_served(line, "refused", 30)


@pytest.mark.parametrize(("status", "words"), [(404, "404"), (410, "410")])
def test_a_watch_that_cannot_be_ends_the_process_with_a_sentence_and_the_next_one_serves(
    line: Line, status: int, words: str
) -> None:
    operator = line.stage.operators[-1]
    with line.proxy.refusing(status, lambda seen: seen.watches):
        line.proxy.end_watches()
        assert operator.wait(30) == 1
    call(line, "restarted")

    last = line.stage.log().splitlines()[-1]
    assert last.startswith("fleetagent: the watches have ended by themselves: ")
    assert words in last or "by the proxy" in last
    line.start_operator()
    wait_until_served(line, "restarted", 30)


def test_a_server_that_does_not_know_us_for_a_while_is_asked_at_ease_until_it_does(line: Line) -> None:
    with line.proxy.refusing(401, lambda _: True):
        line.proxy.end_watches()
        line.stage.wait_for(lambda: "401 Unauthorized" in line.ready()[1], "named")
        before = line.proxy.count(of_kopf)
        line.stage.wait_for(lambda: line.alive()[0] == 503, "not alive", SILENT_SECONDS + 10)
        asked = line.proxy.count(of_kopf) - before
        call(line, "unknown")

    assert "401 Unauthorized" in line.alive()[1]
    assert 1 <= asked <= 6
    wait_until_served(line, "unknown", 30)


def test_a_resource_that_went_while_the_watch_was_cut_is_not_worked_for_any_more(line: Line) -> None:
    """Its finalizer was taken off by hand, and the next list, which has it no more, does not say so."""
    stage = line.stage
    stage.apply(spec={"schedule": {"interval": "10s", "skipUnchanged": False}, "target": {"proofsPerHour": 0}})
    stage.wait_for_runs(2)
    with line.proxy.refusing(500, of_kopf):
        line.proxy.say_in_watches({"type": "ERROR", "object": GONE})
        line.stage.wait_for(lambda: line.ready()[0] == 503, "the watch is cut")
        stage.cluster.kubectl("-n", stage.namespace, "delete", "fa", NAME, "--wait=false")
        off = '{"metadata":{"finalizers":null}}'
        stage.cluster.kubectl("-n", stage.namespace, "patch", "fa", NAME, "--type=merge", "-p", off)
    stage.wait_for(lambda: f"{NAME} is no more" in stage.log(), "it is missed", 30)
    before = len(stage.runs())
    time.sleep(21)  # two of its intervals

    assert len(stage.runs()) == before
    assert line.alive()[0] == 200
    stage.apply(spec=IDLE)
    stage.wait_for(lambda: stage.status().get("lastRunID", 0) > before, "its namesake runs", 30)
