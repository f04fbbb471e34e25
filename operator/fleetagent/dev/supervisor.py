"""The operator process, started again when it ends, as a Deployment would do it."""

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import httpx

from fleetagent.dev.commands import READY_WITHIN_S, Commands, command
from fleetagent.dev.loopback import HOST, free_port, on_a_free_port

PROBE_TIMEOUT_S = 2.0
END_SIGNAL = signal.SIGTERM  # it gives its lease back


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause before a restart: twice the last one, up to a limit; a process that ran for long begins anew."""

    first_s: float = 1.0
    longest_s: float = 30.0
    healthy_after_s: float = 30.0

    def pause_s(self, last_pause_s: float | None, ran_s: float) -> float:
        """How long to wait now; `last_pause_s` is None before the first restart."""
        if last_pause_s is None or ran_s >= self.healthy_after_s:
            return self.first_s
        return min(self.longest_s, 2 * last_pause_s)


@dataclass(frozen=True, slots=True)
class Ports:
    """Kept over restarts: machines were given the worker URL when they were launched."""

    health: int
    worker: int
    web: int

    def settings(self) -> dict[str, str]:
        """As the operator's environment has them."""
        return {
            "FLEETAGENT_HEALTH_LISTEN": f"{HOST}:{self.health}",
            "FLEETAGENT_WORKER_LISTEN": f"{HOST}:{self.worker}",
            "FLEETAGENT_WEB_LISTEN": f"{HOST}:{self.web}",
            "FLEETAGENT_WORKER_URL": f"http://{HOST}:{self.worker}",
        }


class Processes(Protocol):
    """What starts processes and knows how they ended."""

    def start(self, name: str, argv: list[str], *, env: Mapping[str, str], end_signal: signal.Signals) -> int:
        """Its process id."""

    def exit_code(self, name: str) -> int | None:
        """None while it runs."""


class Supervisor:
    """One operator at a time. `started` waits for the first; then `tick` must be called again and again."""

    def __init__(
        self,
        processes: Processes,
        environ: Mapping[str, str],
        ports: Ports,
        *,
        backoff: Backoff | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ports = ports
        self.restarts = 0
        self.pid = 0
        self._processes = processes
        self._environ = {**environ, **ports.settings()}
        self._backoff = backoff or Backoff()
        self._monotonic = monotonic
        self._since = 0.0
        self._pause_s: float | None = None
        self._start_at: float | None = None

    @classmethod
    def started(cls, commands: Commands, environ: Mapping[str, str]) -> "Supervisor":
        """An operator that watches; `CannotStart` with its last words if it ended instead."""

        def on(port: int) -> Supervisor:
            worker, web, *_ = {free_port() for _ in range(4)} - {port}
            supervisor = cls(commands, environ, Ports(port, worker, web))
            supervisor.start()
            commands.wait_for(supervisor.name, supervisor.is_ready, within_s=READY_WITHIN_S)
            return supervisor

        return on_a_free_port(on)

    def start(self) -> None:
        """Start one, and do not wait for it."""
        self._start_at = None
        self._since = self._monotonic()
        self.pid = self._processes.start(self.name, command("operator"), env=self._environ, end_signal=END_SIGNAL)

    @property
    def name(self) -> str:
        """Of the process that is, or was last: each has a log of its own."""
        return f"operator-{self.restarts + 1}"

    def is_ready(self) -> bool:
        """What a readiness probe would find."""
        try:
            answer = httpx.get(f"http://{HOST}:{self.ports.health}/readyz", timeout=PROBE_TIMEOUT_S, trust_env=False)
        except httpx.HTTPError:
            return False
        return answer.is_success

    def tick(self) -> str | None:
        """See to it that one runs; a sentence when something happened."""
        now = self._monotonic()
        if self._start_at is not None:
            if now < self._start_at:
                return None
            self.restarts += 1
            self.start()
            return f"the operator was started again as process {self.pid} (restart {self.restarts})"
        exit_code = self._processes.exit_code(self.name)
        if exit_code is None:
            return None
        self._pause_s = self._backoff.pause_s(self._pause_s, now - self._since)
        self._start_at = now + self._pause_s
        return f"the operator {ended(exit_code)}; it is started again in {self._pause_s:g} s"


def ended(exit_code: int) -> str:
    """How a process ended, in words."""
    return f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with code {exit_code}"
