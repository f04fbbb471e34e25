"""A proxy before the API server that reads what goes by: it refuses, bends or ends what a test names."""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from fleetagent.dev.controlplane import ControlPlane
from support.servers import in_a_thread

HOST = "127.0.0.1"
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
TLS_ENDS_SECONDS = 0.25
"""Connections end a moment after their session and server, as aiohttp's documentation says of TLS."""
GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "metadata": {}}


@dataclass(frozen=True)
class Seen:
    """A request that went by."""

    method: str
    path: str
    query: dict[str, str]
    token: str
    """What stood in its Authorization header."""

    @property
    def watches(self) -> bool:
        """Whether it asks for a stream of FleetAgents."""
        return self.query.get("watch") == "true" and self.path.endswith("/fleetagents")


Rule = Callable[[Seen], int | None]
"""The status that a request is refused with; None lets it pass."""


@dataclass
class ApiProxy:
    """What a test sets, from another thread, while requests go by."""

    upstream: str
    ca: Path
    loop: asyncio.AbstractEventLoop
    port: int = 0
    rule: Rule = lambda _seen: None
    watch_lag_seconds: float = 0.0
    """How late a watch tells what happens."""
    watch_ends_at_once: bool = False
    """A watch is answered, and ends before it has said anything."""
    seen: deque[tuple[Seen, int]] = field(default_factory=lambda: deque(maxlen=10_000))
    """Requests and their status."""
    _streams: set[web.StreamResponse] = field(default_factory=set)
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def refusing(self, status: int, which: Callable[[Seen], bool]) -> Iterator[None]:
        """Answer so to these, for the time of a block; streams that are open go on."""
        self.rule = lambda seen: status if which(seen) else None
        try:
            yield
        finally:
            self.rule = lambda _seen: None

    def say_in_watches(self, event: dict[str, Any]) -> int:
        """Put a line into each watch that is open; how many there were."""
        return asyncio.run_coroutine_threadsafe(self._say(event), self.loop).result(10)

    def end_watches(self) -> None:
        """End each watch that is open, as a server does whose time for it is over."""
        self.loop.call_soon_threadsafe(self._end)

    def count(self, which: Callable[[Seen], bool]) -> int:
        """How many of these went by."""
        return sum(which(seen) for seen, _ in self.seen)

    async def _say(self, event: dict[str, Any]) -> int:
        streams = list(self._streams)
        for stream in streams:
            await stream.write(json.dumps(event).encode() + b"\n")
        return len(streams)

    def _end(self) -> None:
        self._over.set()
        self._over = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request, to the API server or to where the test says."""
        token = request.headers.get("Authorization", "").partition(" ")[2]
        seen = Seen(request.method, request.path, dict(request.query), token)
        status = self.rule(seen)
        if status is not None:
            self.seen.append((seen, status))
            said = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": status,
                "message": "by the proxy",
            }
            return web.json_response(said, status=status)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP}
        session: aiohttp.ClientSession = request.app[SESSION]
        url = f"{self.upstream}{request.path_qs}"
        async with session.request(request.method, url, headers=headers, data=await request.read() or None) as answer:
            self.seen.append((seen, answer.status))
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP}
            if seen.query.get("watch") != "true" or not answer.ok:
                return web.Response(status=answer.status, headers=kept, body=await answer.read())
            stream = web.StreamResponse(status=answer.status, headers=kept)
            await stream.prepare(request)
            await (self._stream(answer, stream) if seen.watches else self._copy(answer, stream))
            return stream

    async def _stream(self, answer: aiohttp.ClientResponse, stream: web.StreamResponse) -> None:
        if self.watch_ends_at_once:
            return
        self._streams.add(stream)
        copying = asyncio.create_task(self._copy(answer, stream))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({copying, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(stream)
            copying.cancel()
            over.cancel()
            await asyncio.gather(copying, over, return_exceptions=True)

    async def _copy(self, answer: aiohttp.ClientResponse, stream: web.StreamResponse) -> None:
        async for data in answer.content.iter_any():
            await asyncio.sleep(self.watch_lag_seconds)
            await stream.write(data)


SESSION = web.AppKey("session", aiohttp.ClientSession)


@asynccontextmanager
async def _proxying(control_plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    proxy = ApiProxy(control_plane.server_url, control_plane.ca_path, asyncio.get_running_loop())
    client = ssl.create_default_context(cafile=proxy.ca)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    credentials = control_plane.ca_path.parent  # the server's own certificate is for this host, whatever the port
    server.load_cert_chain(credentials / "apiserver.crt", credentials / "apiserver.key")
    connector = aiohttp.TCPConnector(ssl=client, limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        app = web.Application(client_max_size=16 * 1024**2)
        app[SESSION] = session
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0, ssl_context=server)
        await site.start()
        proxy.port = runner.addresses[0][1]
        try:
            yield proxy
        finally:
            await runner.cleanup()
    await asyncio.sleep(TLS_ENDS_SECONDS)


@contextmanager
def a_proxy(control_plane: ControlPlane) -> Iterator[ApiProxy]:
    """A proxy in a thread of its own; `proxy.port` is where to connect, with the API server's own certificate."""
    with in_a_thread(lambda: _proxying(control_plane)) as proxy:
        yield proxy


def by_way_of(port: int, kubeconfig: Path, to: Path, *, token_file: Path | None = None) -> Path:
    """The same kubeconfig with the server behind this port, and perhaps with its token in a file."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://{HOST}:{port}"
    if token_file is not None:
        token_file.write_text(config["users"][0]["user"].pop("token"))
        config["users"][0]["user"]["tokenFile"] = str(token_file)
    to.touch(mode=0o600)
    to.write_text(yaml.safe_dump(config))
    return to


def token_in(kubeconfig: Path) -> str:
    """The token that a client with this kubeconfig sends now."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    return Path(user["tokenFile"]).read_text() if "tokenFile" in user else str(user["token"])
