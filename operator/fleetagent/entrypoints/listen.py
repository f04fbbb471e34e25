"""One HTTP listener: bound before anything relies on it, ended with the process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette

from fleetagent.entrypoints.guarded import (
    LARGEST_HEAD_BYTES,
    PEOPLE_CONNECTED,
    PEOPLE_OF_A_PEER,
    Crowd,
    guarded,
    patient,
)
from fleetagent.errors import CannotStart

LAST_ANSWERS_SECONDS = 3


@contextlib.asynccontextmanager
async def listening(
    app: Starlette, host: str, port: int, *, what: str, crowd: Crowd | None = None
) -> AsyncIterator[int]:
    """Serve until the block ends; the port that was bound. `CannotStart` names the setting whose address is taken.

    With a `crowd`, strangers are expected: each connection is for one request, and its limits hold. Without one, people
    and probes: answers may last.
    """
    bound = _bind(host, port, what)
    server = _Server(
        uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # what a peer says of itself is its word alone
            timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
            **(_for_people() if crowd is None else _for_strangers(crowd)),
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[bound]), name=what)
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await serving
        bound.close()


def _for_people() -> dict[str, Any]:
    return {"http": patient(Crowd(PEOPLE_CONNECTED, PEOPLE_OF_A_PEER))}


def _for_strangers(crowd: Crowd) -> dict[str, Any]:
    return {
        "http": guarded(crowd),
        "h11_max_incomplete_event_size": LARGEST_HEAD_BYTES,
        "headers": [("connection", "close"), ("cache-control", "no-store")],
    }


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
