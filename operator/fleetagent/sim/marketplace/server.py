"""Starts and stops a market: inside a test, or as a process of its own."""

import asyncio
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import httpx
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from fleetagent.sim.marketplace.app import routes
from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.crew import Crew
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.marketplace.simapi import SimApi


@dataclass(frozen=True, slots=True)
class RunningMarketplace:
    """A market that answers at `url`; in the same process its state can be looked at directly."""

    url: str
    market: Market


def application(market: Market) -> Starlette:
    """Both APIs over one market. A missing final slash is an error here, as a redirect would hide it."""
    app = Starlette(routes=[*routes(market), *SimApi(market).routes()])
    app.router.redirect_slashes = False
    return app


@asynccontextmanager
async def running(config: MarketplaceConfig) -> AsyncIterator[RunningMarketplace]:
    """A market for as long as the block lasts; afterwards its machines' programs and its socket are gone."""
    market = Market(config, Clock(config.time_scale))
    listener = _listen(config.listen)
    host, port = listener.getsockname()[:2]
    server = _Server(
        uvicorn.Config(
            application(market),
            http=_ResettableProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,  # a hanging answer is a fault that we made ourselves
        )
    )
    async with httpx.AsyncClient() as http, Crew(market, http):
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="marketplace")
        try:
            yield RunningMarketplace(f"http://{host}:{port}", market)
        finally:
            server.should_exit = True
            await serving


def serve(config: MarketplaceConfig) -> None:
    """Run until SIGTERM or SIGINT; say on standard output where, once ready."""
    asyncio.run(_serve_until_told(config))


async def _serve_until_told(config: MarketplaceConfig) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, told.set)
    async with running(config) as marketplace:
        sys.stdout.write(f"marketplace on {marketplace.url} (seed {config.seed}, {config.time_scale:g}x)\n")
        sys.stdout.flush()
        await told.wait()


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    # asyncio turns Nagle's algorithm off only where the protocol is named: without it each answer waits 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


class _Server(uvicorn.Server):
    """Leaves signals to whoever started it: a test, or `serve`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _ResettableProtocol(H11Protocol):
    """Lets a handler cut the connection without an answer: `request.state.reset_connection()`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, "reset_connection": self._reset}
        super().connection_made(transport)

    def _reset(self) -> None:
        at_once = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.transport.abort()
