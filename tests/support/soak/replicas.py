"""Two operator processes that somebody strikes and a kubelet starts again; what each of them took is written down."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.ports import free_port
from support.replicas import says_that_it_works
from support.soak.plan import Blow, Planned
from support.stage import Stage

REPLICAS = 2
FIRST_RESTART_S, NEXT_RESTARTS_S = 1.0, 10.0
"""A kubelet starts a container again at once, and the next time after its first back-off."""

GRACE_S = 30.0
SAMPLED_EVERY_S = 2.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Struck:
    """A blow that was given."""

    at: datetime
    blow: Blow
    replica: int
    active: bool
    """Whether that replica was the one at work."""

    frozen_s: float

    @property
    def moments(self) -> tuple[datetime, ...]:
        """When somebody had to take over: who is thawed and was the elder takes its turn back."""
        return (self.at, self.at + timedelta(seconds=self.frozen_s)) if self.blow is Blow.FREEZE else (self.at,)


@dataclass(slots=True)
class Life:
    """One process from its start to its end."""

    replica: int
    process: subprocess.Popen[bytes]
    web_port: int
    samples: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, MB resident)."""

    cpu_s: float = 0.0
    started: float = field(default_factory=time.monotonic)

    @property
    def active(self) -> bool:
        """Whether it is the one whose turn it is."""
        return says_that_it_works(self.web_port)

    def sample(self) -> None:
        """Note what it takes now; a process that has just ended is left as it was."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
            stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return
        resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
        if resident:
            self.samples.append((time.monotonic() - self.started, int(resident[0]) / 1024))
        user, system = stat.rpartition(")")[2].split()[11:13]
        self.cpu_s = (int(user) + int(system)) / TICKS_PER_S


class Replicas:
    """The replicas of one Deployment."""

    def __init__(self, stage: Stage, **settings: str) -> None:
        self._stage = stage
        self._settings = settings
        self.worker_ports = [free_port() for _ in range(REPLICAS)]
        self._over = threading.Event()
        self._starting = threading.Lock()  # the stage numbers its logs by the processes that it has
        self.lives: list[Life] = []
        self._now: list[Life] = [self._start(number) for number in range(REPLICAS)]
        self._threads = [threading.Thread(target=self._keep, args=(n,), daemon=True) for n in range(REPLICAS)]
        self._threads.append(threading.Thread(target=self._sample, daemon=True))

    @contextmanager
    def kept(self) -> Iterator["Replicas"]:
        """Started again whenever one ends, until the block does; then they are asked to end, as an uninstall does."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()
            for life in self._now:
                life.process.send_signal(signal.SIGTERM)
            for life in self._now:
                life.process.wait(GRACE_S)

    def strike(self, planned: Planned) -> Struck:
        """Do it; a frozen one is thawed later."""
        life = self._now[planned.replica]
        process, active = life.process, life.active
        at = datetime.now(UTC)  # noqa: TID251  # runs are compared with it
        match planned.blow:
            case Blow.KILL:
                process.kill()
            case Blow.END:
                process.terminate()
            case Blow.FREEZE:
                process.send_signal(signal.SIGSTOP)
                thaw = threading.Timer(planned.frozen_s, process.send_signal, (signal.SIGCONT,))
                thaw.daemon = True
                thaw.start()
        return Struck(at, planned.blow, planned.replica, active, planned.frozen_s)

    def cpu_s(self) -> float:
        """Seconds of a core that all of them have taken so far."""
        return sum(life.cpu_s for life in self.lives)

    def _start(self, number: int) -> Life:
        with self._starting:
            process = self._stage.start_operator(
                **self._settings, worker_listen=f"127.0.0.1:{self.worker_ports[number]}"
            )
            life = Life(number, process, self._stage.web_port)
        self.lives.append(life)
        return life

    def _keep(self, number: int) -> None:
        pause_s = FIRST_RESTART_S
        while not self._over.wait(0.1):
            if self._now[number].process.poll() is not None and not self._over.wait(pause_s):
                self._now[number] = self._start(number)
                pause_s = NEXT_RESTARTS_S

    def _sample(self) -> None:
        while not self._over.wait(SAMPLED_EVERY_S):
            for life in self._now:
                life.sample()
