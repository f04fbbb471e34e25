"""A market in this process without sockets, on a clock that its caller moves: a week of it takes as long as its work.

    clock = VirtualClock()
    async with in_process(MarketplaceConfig(seed=3), clock, workers=httpx.ASGITransport(worker_app)) as marketplace:
        client = httpx.AsyncClient(transport=marketplace.transport)  # any base URL will do
        await clock.run(300)  # five minutes pass, and whatever the machines' programs do in them has been done

Both times of the clock move together. An answer that is held back costs no time: one that outlasts the client's read
time-out is a `httpx.ReadTimeout` at once.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.crew import Crew
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.marketplace.server import application

START_S = 1_800_000_000.0
"""2027-01-15 08:00 UTC."""


@dataclass(frozen=True, slots=True, order=True)
class _Sleeper:
    due: float
    number: int
    woken: "asyncio.Future[None]" = field(compare=False)
    is_program: bool = field(compare=False)


class VirtualClock(Clock):
    """Stands still but for `run`: sleepers are woken in order, each when every program before it sleeps again."""

    def __init__(self, start_wall: float = START_S) -> None:
        self._market_s = 0.0
        self._skipped_s = 0.0
        super().__init__(steady=lambda: 0.0, wall=lambda: start_wall + self._market_s - self._skipped_s)
        self._sleepers: list[_Sleeper] = []
        self._numbers = itertools.count()
        self._programs: set[asyncio.Task[None]] = set()
        self._dozing = 0
        self._all_doze = asyncio.Event()
        self._all_doze.set()

    def market(self) -> float:
        """Seconds of market time since the start."""
        return self._market_s

    async def run(self, seconds: float) -> None:
        """Let so much time pass; a program that waits for an answer, and not for time, is waited for."""
        until = self._market_s + seconds
        await self._all_doze.wait()
        while self._sleepers and self._sleepers[0].due <= until:
            sleeper = heapq.heappop(self._sleepers)
            self._market_s = max(self._market_s, sleeper.due)
            self._wake(sleeper)
            await self._all_doze.wait()
        self._market_s = max(self._market_s, until)

    def advance(self, seconds: float) -> None:
        """Let market time jump; the wall clock does not follow."""
        self._market_s += seconds
        self._skipped_s += seconds
        self.stir()

    def stir(self) -> None:
        """Wake all who doze."""
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            self._wake(sleeper)

    async def doze(self, until: float) -> None:
        """Return at `until` (market time), or earlier when something stirred."""
        if until <= self._market_s:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        is_program = asyncio.current_task() in self._programs
        heapq.heappush(self._sleepers, _Sleeper(until, next(self._numbers), woken, is_program))
        self._count(is_program)
        try:
            await woken
        finally:
            if woken.cancelled():
                self._count(-is_program)

    async def pause(self, wall_seconds: float) -> None:
        """The wall clock is virtual, too."""
        await self.sleep(wall_seconds)

    def spawn(self, work: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
        """Start a program: time waits until it sleeps, or has ended."""
        task = super().spawn(work, name)
        self._programs.add(task)
        self._count(0)
        task.add_done_callback(self._ended)
        return task

    def _wake(self, sleeper: _Sleeper) -> None:
        if not sleeper.woken.done():
            sleeper.woken.set_result(None)
            self._count(-sleeper.is_program)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._programs.discard(task)
        self._count(0)

    def _count(self, more_dozing: int) -> None:
        self._dozing += more_dozing
        if self._dozing >= len(self._programs):
            self._all_doze.set()
        else:
            self._all_doze.clear()


@dataclass(frozen=True, slots=True)
class InProcessMarketplace:
    """A market without an address: whoever has its transport can call it."""

    market: Market
    transport: httpx.AsyncBaseTransport


@asynccontextmanager
async def in_process(
    config: MarketplaceConfig, clock: Clock, *, workers: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[InProcessMarketplace]:
    """A market for as long as the block lasts. `workers` carries what machines report; without, sockets do."""
    market = Market(config, clock)
    async with httpx.AsyncClient(transport=workers) as http, Crew(market, http):
        yield InProcessMarketplace(market, _Transport(application(market)))


class _Transport(httpx.AsyncBaseTransport):
    """Hands each request to the application; what would break a connection or a client's patience is raised here."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        patience_s = request.extensions.get("timeout", {}).get("read")

        async def hold(seconds: float) -> None:
            if patience_s is not None and seconds > patience_s:
                raise httpx.ReadTimeout("the answer is held back", request=request)

        def reset() -> None:
            raise httpx.ReadError("the connection was reset", request=request)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self._app({**scope, "state": {"hold": hold, "reset_connection": reset}}, receive, send)

        return await httpx.ASGITransport(app).handle_async_request(request)
