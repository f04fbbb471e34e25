"""Changes of the fleet: a burst of them is one run, and what comes during a run is one more."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from support.stage import Stage
from support.steering import called, hold_model, release_model, request_and_wait, wait_until_held

EVENTS = "SELECT * FROM triggers WHERE kind = 'Event' AND state = 'pending'"


class Worker:
    """The program of the one machine, as the operator hears it."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def restart(self) -> None:
        """From the first report to proving again: two events."""
        uuid = self._tell("register", label="w", min_rate=0)["uuid"]
        self._tell("param-done", uuid=uuid)
        assert self._tell("bench-done", uuid=uuid, rate=77.0)["passed"]

    def _tell(self, call: str, **body: Any) -> dict[str, Any]:
        while (answer := self._http.post(call, json=body)).status_code == httpx.codes.TOO_MANY_REQUESTS:
            time.sleep(float(answer.headers["Retry-After"]))
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


@contextmanager
def one_proving_machine(stage: Stage, **debounce: str) -> Iterator[Worker]:
    """A fleet of one that has nothing more to tell, and a way to make it tell something."""
    stage.start_operator()
    stage.apply(spec={"target": {"proofsPerHour": 50}, "schedule": {"interval": "24h", "debounce": debounce}})
    stage.wait_for_target()
    stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] == 0, "the machine proves")
    request_and_wait(stage, "calm")
    (machine,) = (m for m in stage.market.get("state")["machines"] if m["live"])
    url = machine["env"]["FLEETAGENT_URL"]
    with httpx.Client(base_url=url, trust_env=False, timeout=20) as http:
        yield Worker(http)


def test_twenty_events_at_once_are_one_run_and_events_during_it_are_one_more(stage: Stage) -> None:
    with one_proving_machine(stage, idle="12s", max="60s") as worker:
        before = len(stage.runs())
        hold_model(stage)
        for _ in range(10):
            worker.restart()
        assert len(stage.rows(EVENTS)) == 20
        wait_until_held(stage, before + 1)
        for _ in range(10):
            worker.restart()
        release_model(stage)
        stage.wait_for_runs(before + 2, 90)
        request_and_wait(stage, "afterwards")

    assert called(stage)[before:] == [["Event"], ["Event"], ["Request"]]
    (told,) = stage.rows("SELECT content FROM messages WHERE run_id = %s AND kind = 'observation'", before + 1)
    assert "has restarted" in told["content"]
    assert "12 more" in told["content"]
    stage.check_books()


def test_a_fleet_that_changes_all_the_time_is_run_for_within_the_longest_wait(stage: Stage) -> None:
    with one_proving_machine(stage, idle="14s", max="15s") as worker:
        before = len(stage.runs())

        def went_on_until_a_run() -> bool:
            worker.restart()
            time.sleep(1.2)  # a worker that restarts faster than that is not told of for long
            return len(stage.runs()) > before

        stage.wait_for(went_on_until_a_run, "a run although the events go on", within_s=30)

    (run,) = stage.runs()[before:]
    (first,) = stage.rows("SELECT min(at) AS at FROM triggers WHERE claimed_by_run = %s", run["run_id"])
    assert (run["started_at"] - first["at"]).total_seconds() > 12
