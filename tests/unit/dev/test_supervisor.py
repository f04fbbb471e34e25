"""A dead operator is started again, not too fast, with the settings that it had."""

import signal
from collections.abc import Mapping

import pytest

from fleetagent.dev.supervisor import Backoff, Ports, Supervisor


class FakeProcesses:
    """Remembers what was started; `exits` says how each ended."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Mapping[str, str]]] = []
        self.exits: dict[str, int] = {}

    def start(self, name: str, _argv: list[str], *, env: Mapping[str, str], end_signal: signal.Signals) -> int:
        assert end_signal is signal.SIGTERM
        self.started.append((name, env))
        return 1000 + len(self.started)

    def exit_code(self, name: str) -> int | None:
        return self.exits.get(name)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def supervised(processes: FakeProcesses, clock: Clock) -> Supervisor:
    supervisor = Supervisor(processes, {"A": "b"}, Ports(1, 2, 3), monotonic=clock)
    supervisor.start()
    return supervisor


def test_a_process_that_runs_is_left_alone() -> None:
    processes = FakeProcesses()

    assert supervised(processes, Clock()).tick() is None
    assert [name for name, _ in processes.started] == ["operator-1"]


def test_a_dead_process_is_started_again_after_a_pause_and_both_are_said() -> None:
    processes, clock = FakeProcesses(), Clock()
    supervisor = supervised(processes, clock)
    processes.exits["operator-1"] = -9

    assert supervisor.tick() == "the operator was ended by signal 9; it is started again in 1 s"
    clock.now = 0.9
    assert supervisor.tick() is None
    clock.now = 1.0
    assert supervisor.tick() == "the operator was started again as process 1002 (restart 1)"
    assert (supervisor.pid, supervisor.restarts) == (1002, 1)


def test_the_next_process_has_the_same_ports() -> None:
    processes, clock = FakeProcesses(), Clock()
    supervisor = supervised(processes, clock)
    processes.exits["operator-1"] = 1
    supervisor.tick()
    clock.now = 5.0
    supervisor.tick()

    (_, first), (_, second) = processes.started
    assert first == second
    assert first["FLEETAGENT_WORKER_URL"] == "http://127.0.0.1:2"
    assert first["FLEETAGENT_WEB_LISTEN"] == "127.0.0.1:3"


def test_a_process_that_dies_again_and_again_is_started_ever_more_slowly() -> None:
    processes, clock = FakeProcesses(), Clock()
    supervisor = supervised(processes, clock)
    pauses = []
    for number in range(1, 8):
        processes.exits[f"operator-{number}"] = 1
        pauses.append((supervisor.tick() or "").rpartition(" in ")[2])
        clock.now += 100.0
        supervisor.tick()

    assert pauses == ["1 s", "2 s", "4 s", "8 s", "16 s", "30 s", "30 s"]


@pytest.mark.parametrize(("ran_s", "pause_s"), [(29.9, 16.0), (30.0, 1.0)], ids=["crashing still", "was healthy"])
def test_a_process_that_ran_for_long_is_started_again_at_once(ran_s: float, pause_s: float) -> None:
    assert Backoff().pause_s(8.0, ran_s) == pause_s
