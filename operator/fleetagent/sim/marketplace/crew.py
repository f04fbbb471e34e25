"""Gives every running machine its program, takes it away when the machine stops, and keeps the books meanwhile.

One task per machine that has a worker URL in its environment.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Self

import httpx

from fleetagent.sim.marketplace import fate as fates
from fleetagent.sim.marketplace.books import settle
from fleetagent.sim.marketplace.faults import Switch
from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.workers import Worker

WEAK_FACTOR = 0.3
FOREVER_S = 86_400.0 * 365


class Crew:
    """The programs of all machines. Use as a context manager: leaving it ends them."""

    def __init__(self, market: Market, http: httpx.AsyncClient) -> None:
        self._market = market
        self._http = http
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._market.on_create = self._hire
        self._spawn(self._keep_books(), "books")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hire(self, machine: Machine) -> None:
        if machine.order.env.get(self._market.config.worker_url_env):
            self._spawn(self._tend(machine), f"machine {machine.id}")

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep_books(self) -> None:
        """Money and contracts run out at their hour, although nobody calls."""
        clock = self._market.clock
        while True:
            settle(self._market)
            await clock.doze(min(self._market.books_due, clock.market() + FOREVER_S))

    async def _tend(self, machine: Machine) -> None:
        """Boot the program whenever the machine comes to run; a machine that returns boots it again."""
        while await self._until(machine, running=True):
            fault = self._market.board.take("worker")
            boot = self._spawn(self._boot(machine, fault), f"program of {machine.id}")
            await self._until(machine, running=False)
            if fault is not None and fault.kind == "late":
                continue  # its reports come although the machine is gone
            boot.cancel()
            await asyncio.wait({boot})
            if not boot.cancelled():
                boot.result()

    async def _until(self, machine: Machine, *, running: bool) -> bool:
        """Wait until the machine runs, or no longer does; False when it was destroyed."""
        clock = self._market.clock
        while machine.live:
            now = clock.market()
            if (machine.status_at(now) == "running") == running:
                return True
            await clock.doze(min(machine.timeline.next_change(now), now + FOREVER_S))
        return False

    async def _boot(self, machine: Machine, fault: Switch | None) -> None:
        kind = fault.kind if fault is not None else ""
        machine.worker.state = "booting"
        if kind == "silent" or machine.fate.start == fates.DEAD:
            return
        fate, env, config = machine.fate, machine.order.env, self._market.config
        await Worker(
            http=self._http,
            base_url=env[config.worker_url_env],
            label=f"C.{machine.id}",
            min_rate=_number(env.get(config.min_rate_env, "")),
            rate=round(fate.rate * (WEAK_FACTOR if kind == "weak" else 1.0), 2),
            parameters_s=fate.parameters_s,
            benchmark_s=fate.benchmark_s,
            sleep=self._market.clock.sleep,
            log=machine.worker,
            repeats=kind == "repeats",
        ).work()


def _number(text: str) -> float:
    """A minimum rate as the environment has it; what is no number is no minimum."""
    try:
        return float(text)
    except ValueError:
        return 0.0
