"""One HTTP listener: bound before anything relies on it, ended with the process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.applications import Starlette

from fleetagent.errors import CannotStart

LAST_ANSWERS_SECONDS = 3


@contextlib.asynccontextmanager
async def listening(app: Starlette, host: str, port: int, *, what: str) -> AsyncIterator[int]:
    """Serve until the block ends; the port that was bound. `CannotStart` names the setting whose address is taken."""
    bound = _bind(host, port, what)
    server = _Server(
        uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[bound]), name=what)
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await serving
        bound.close()


class _Server(uvicorn.Server):
    """Leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _bind(host: str, port: int, what: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where it sees the protocol; with it, each answer takes 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(1024)
    except OSError as error:
        bound.close()
        raise CannotStart(f"{what}: {host}:{port} cannot be listened on: {error.strerror or error}") from error
    return bound
