"""A wire to a server on this machine that breaks in each way that wires do: before an API server, or a Postgres."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import Enum

from support.servers import in_a_thread

HOST = "127.0.0.1"
AT_ONCE = struct.pack("ii", 1, 0)
"""Of SO_LINGER: a close sends a reset."""


class Mode(Enum):
    """What happens on the wire."""

    WELL = "well"
    RESET = "reset"
    """Whoever connects, or was connected, is reset."""
    BLACK_HOLE = "black hole"
    """Connections are taken, and not a byte goes through; those that were in it stay silent for ever."""


class Wire:
    """Carries bytes, as long as it does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target_port: int) -> None:
        self.port = 0
        self._loop = loop
        self._target_port = target_port
        self._mode = Mode.WELL
        self._generation = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._carried: set[asyncio.Task[None]] = set()

    def turn(self, mode: Mode) -> None:
        """From now on, for those who are connected too."""
        asyncio.run_coroutine_threadsafe(self._turn(mode), self._loop).result(10)

    @contextmanager
    def broken(self, mode: Mode) -> Iterator[None]:
        """For the time of a block."""
        self.turn(mode)
        try:
            yield
        finally:
            self.turn(Mode.WELL)

    async def _turn(self, mode: Mode) -> None:
        was, self._mode = self._mode, mode
        if Mode.BLACK_HOLE in {was, mode}:
            self._generation += 1
        if mode is Mode.RESET:
            for writer in list(self._open):
                _reset(writer)

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._carried.add(task)
        task.add_done_callback(self._carried.discard)

    async def end(self) -> None:
        """Let go of all connections, and wait until they are gone."""
        await self._turn(Mode.RESET)
        await asyncio.gather(*self._carried)
        await asyncio.sleep(0)  # what was reset a moment ago is closed in the loop's next round

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.RESET:
            _reset(writer)
            return
        generation = -1 if self._mode is Mode.BLACK_HOLE else self._generation
        self._open.add(writer)
        there: asyncio.StreamWriter | None = None
        with contextlib.suppress(OSError):
            answers, there = await asyncio.open_connection(HOST, self._target_port)
            self._open.add(there)
            await asyncio.gather(self._pass_on(reader, there, generation), self._pass_on(answers, writer, generation))
        for end in (writer, there):
            if end is not None:
                self._open.discard(end)
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, generation: int) -> None:
        while data := await reader.read(65_536):
            if generation == self._generation:
                writer.write(data)
                await writer.drain()
        if generation == self._generation:
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    plain: socket.socket = writer.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.transport.abort()


@asynccontextmanager
async def _carrying(target_port: int) -> AsyncIterator[Wire]:
    wire = Wire(asyncio.get_running_loop(), target_port)
    server = await asyncio.start_server(wire.take, HOST, 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        await wire.end()


@contextmanager
def a_wire(target_port: int) -> Iterator[Wire]:
    """A wire in a thread of its own; `wire.port` is where to connect."""
    with in_a_thread(lambda: _carrying(target_port)) as wire:
        yield wire
