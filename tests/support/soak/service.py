"""What a Service is to the workers: one address, behind it whichever replica takes the connection."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence

CHUNK = 65536
TRIED_FOR_S = 1.0


class Service:
    """Forwards bytes; replicas that do not take a connection are passed over."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._turns = itertools.cycle(range(len(ports)))
        self._ports = tuple(ports)

    @contextlib.asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        """Serve on this port until the block ends."""
        server = await asyncio.start_server(self._forward, "127.0.0.1", port)
        try:
            yield
        finally:
            server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            first = next(self._turns)
            for port in (*self._ports[first:], *self._ports[:first]):
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(TRIED_FOR_S):
                        there = await asyncio.open_connection("127.0.0.1", port)
                    await self._exchange((reader, writer), there)
                    return

    async def _exchange(
        self,
        here: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        with contextlib.closing(there[1]), contextlib.suppress(OSError):
            copies = [asyncio.ensure_future(_copy(here[0], there[1])), asyncio.ensure_future(_copy(there[0], here[1]))]
            try:
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for copy in copies:
                    copy.cancel()
                await asyncio.gather(*copies, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
