"""A schedule, a request, an event and a wake within the same tenth of a second, again and again, on two replicas."""

import itertools
import threading
from collections.abc import Callable

import httpx
import pytest

from support.replicas import Replica, start_replica, start_two, with_peering
from support.stage import Stage
from support.steering import request_and_wait, request_quickly

TIMES = 50
WAKE = """
INSERT INTO wakes (agent_id, at, reason, state, asked_by_run)
SELECT id, now(), %s, 'pending', 1 FROM agents RETURNING id
"""


def in_turns(stage: Stage) -> tuple[Replica, Replica]:
    """As installed: one stands by, but hears workers too."""
    return start_two(with_peering(stage))


def side_by_side(stage: Stage) -> tuple[Replica, Replica]:
    """Each believes that it is the only one: nothing but the lease is between them."""
    return start_replica(stage), start_replica(stage)


def at_once(*deeds: Callable[[], object]) -> None:
    """All of them, each in a thread that waits for the others to be ready."""
    ready = threading.Barrier(len(deeds))
    failed: list[BaseException] = []

    def do(deed: Callable[[], object]) -> None:
        try:
            ready.wait(10)
            deed()
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=do, args=(deed,)) for deed in deeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


class Calls:
    """The four things that call for a run."""

    def __init__(self, stage: Stage, worker: httpx.Client) -> None:
        self._stage = stage
        self._worker = worker

    def schedule(self) -> None:
        self._stage.rows("UPDATE agents SET next_scheduled_at = now() RETURNING id")

    def wake(self, reason: str) -> None:
        self._stage.rows(WAKE, reason)

    def request(self, value: str) -> None:
        request_quickly(self._stage, value)

    def event(self) -> None:
        """The machine's program has started again: whichever replica hears it."""
        answer = self._worker.post("register", json={"label": "w", "min_rate": 0})
        assert answer.status_code in {httpx.codes.OK, httpx.codes.TOO_MANY_REQUESTS}


@pytest.mark.parametrize("start", [in_turns, side_by_side])
def test_they_are_one_run_at_a_time_and_each_is_served(
    stage: Stage, start: Callable[[Stage], tuple[Replica, Replica]]
) -> None:
    start(stage)
    spec = {"target": {"proofsPerHour": 50}, "schedule": {"interval": "24h", "debounce": {"idle": "1s", "max": "3s"}}}
    stage.apply(spec=spec)
    stage.wait_for_target()
    stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] == 0, "the machine proves")
    request_and_wait(stage, "calm")
    (machine,) = (m for m in stage.market.get("state")["machines"] if m["live"])

    with httpx.Client(base_url=machine["env"]["FLEETAGENT_URL"], trust_env=False, timeout=20) as worker:
        calls = Calls(stage, worker)
        for n in range(TIMES):
            at_once(calls.schedule, calls.event, lambda: calls.request(f"r{n}"), lambda: calls.wake(f"w{n}"))  # noqa: B023
            served = "SELECT id FROM agents WHERE handled->>'request' = %s"
            stage.wait_for(lambda: stage.rows(served, f"r{n}"), f"request {n} is served")  # noqa: B023
    request_and_wait(stage, "afterwards")
    stage.wait_for(lambda: not stage.rows("SELECT id FROM triggers WHERE state = 'pending'"), "all are served")

    runs = stage.runs()
    assert [r["run_id"] for r in runs] == list(range(1, len(runs) + 1))
    for before, after in itertools.pairwise(runs):
        assert before["finished_at"] <= after["started_at"]
    assert [r["value"] for r in stage.rows("SELECT value FROM triggers WHERE kind = 'Request' ORDER BY id")] == [
        "calm",
        *(f"r{n}" for n in range(TIMES)),
        "afterwards",
    ]
    states = stage.rows("SELECT state FROM triggers UNION SELECT state FROM wakes")
    assert [r["state"] for r in states] == ["processed"]
    assert len(stage.rows("SELECT id FROM wakes WHERE reason LIKE 'w%%'")) == TIMES
    assert stage.status()["lastRunID"] == runs[-1]["run_id"]
    stage.wait_for_books()
