"""A DSN may lead to anybody who speaks Postgres' protocol: what is no count is unknown, and fills no memory."""

import asyncio
import resource
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleetagent.adapters.demand.curio import CurioSource
from fleetagent.adapters.demand.dsn import read_dsn
from fleetagent.domain.demand import Demand
from fleetagent.errors import TryLater

BOOL, INT8, TEXT, FLOAT8, NUMERIC = 16, 20, 25, 701, 1700
NAMES = (
    *("waiting_porep", "waiting_snap", "being_proved", "soon_porep", "soon_snap", "market", "market_enabled"),
    *("posted_porep", "posted_snap", "posted_market"),
)
KINDS = tuple(BOOL if name == "market_enabled" else INT8 for name in NAMES)
ONES = tuple(b"t" if kind == BOOL else b"1" for kind in KINDS)
CANCEL = struct.pack("!I", 80877102)
ROWS_AT_ONCE = 5_000


def said(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def columns(names: Sequence[str], kinds: Sequence[int]) -> bytes:
    each = (n.encode() + b"\0" + struct.pack("!IHIhih", 0, 0, k, 8, -1, 0) for n, k in zip(names, kinds, strict=True))
    return said(b"T", struct.pack("!H", len(names)) + b"".join(each))


def row(values: Sequence[bytes]) -> bytes:
    return said(b"D", struct.pack("!H", len(values)) + b"".join(struct.pack("!I", len(v)) + v for v in values))


@dataclass
class Liar:
    """Lets everybody in, and answers the question for counts with these bytes, once or with rows without an end."""

    counts: bytes
    heartbeat: bytes = b"f"
    seconds: bytes = b"1"
    for_ever: bool = False
    lines: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _let_in(reader, writer)
            await self._talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # it has hung up
        finally:
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state, query = b"I", b""
        while (kind := await reader.readexactly(1)) != b"X":
            body = await reader.readexactly(struct.unpack("!I", await reader.readexactly(4))[0] - 4)
            query = body if kind in {b"P", b"Q"} else query
            state = b"T" if b"BEGIN" in query else state
            if kind not in {b"Q", b"S"}:
                continue
            answer = self._answer(query)
            writer.write((said(b"1") + said(b"2") if kind == b"S" else b"") + answer)
            while self.for_ever and answer == self.counts:
                writer.write(row(ONES) * ROWS_AT_ONCE)
                await writer.drain()
            writer.write(said(b"C", b"OK\0") + said(b"Z", state))

    def _answer(self, query: bytes) -> bytes:
        if b"pg_attribute" in query:
            return columns(["has_heartbeat"], [BOOL]) + row([self.heartbeat])
        if b"last_contact" in query:
            return columns(["seconds"], [FLOAT8]) + row([self.seconds])
        return self.counts if b"harmony_task" in query else b""


@asynccontextmanager
async def running(liar: Liar) -> AsyncIterator[str]:
    """Its DSN."""
    listening = await asyncio.start_server(liar.accept, "127.0.0.1", 0)
    async with listening:
        yield f"postgresql://u:p@127.0.0.1:{listening.sockets[0].getsockname()[1]}/d?sslmode=disable"
    for line in liar.lines:
        line.cancel()
    await asyncio.wait(liar.lines)


async def _let_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    wants = await reader.readexactly(struct.unpack("!I", await reader.readexactly(4))[0] - 4)
    if wants[:4] == CANCEL:
        raise ConnectionError
    greetings = (said(b"R", struct.pack("!I", 0)), said(b"S", b"client_encoding\0UTF8\0"), said(b"K", b"\0" * 8))
    writer.write(b"".join(greetings) + said(b"Z", b"I"))


async def demand(dsn: str, *, look_seconds: float = 5.0) -> Demand:
    return await CurioSource(read_dsn(dsn), look_seconds=look_seconds).demand()


async def test_who_answers_as_curio_does_is_believed() -> None:
    async with running(Liar(columns(NAMES, KINDS) + row(ONES))) as dsn:
        assert await demand(dsn) == Demand(active=True, queued=7, arrival_per_hour=3.6)


def all_of(kind: int, value: bytes) -> bytes:
    return columns(NAMES, [kind] * len(NAMES)) + row([value] * len(NAMES))


@pytest.mark.parametrize(
    "counts",
    [
        all_of(TEXT, b"many"),
        all_of(FLOAT8, b"NaN"),
        all_of(FLOAT8, b"1e308"),
        all_of(NUMERIC, b"Infinity"),
        all_of(BOOL, b"t"),
        all_of(INT8, b"1"),  # also whether the market is enabled
        columns(NAMES, KINDS) + row([b"-1", *ONES[1:]]),
        columns(NAMES, KINDS) + row([b"9" * 4000, *ONES[1:]]),
        columns(NAMES, KINDS) + row([b"1000000000001", *ONES[1:]]),
        columns(NAMES, KINDS) + row(ONES) * 2,
        columns(NAMES, KINDS),
        columns(["another"], [INT8]) + row([b"1"]),
        columns(NAMES[1:], KINDS[1:]) + row(ONES[1:]),
        b"",
    ],
    ids=lambda counts: repr(counts[-40:])[:40],
)
async def test_what_is_no_count_makes_demand_unknown(counts: bytes) -> None:
    async with running(Liar(counts)) as dsn:
        with pytest.raises(TryLater, match=r"^spec\.demand\.curio\.dsnSecretRef: "):
            await demand(dsn)


@pytest.mark.parametrize("seconds", [b"NaN", b"-Infinity", b"Infinity"])
async def test_a_last_contact_that_is_no_moment_makes_demand_unknown(seconds: bytes) -> None:
    async with running(Liar(columns(NAMES, KINDS) + row(ONES), b"t", seconds)) as dsn:
        with pytest.raises(TryLater, match="no moment of its nodes' last contact"):
            await demand(dsn)


async def test_rows_without_an_end_are_left_in_time_and_fill_no_memory() -> None:
    before = most = _memory_bytes()
    async with running(Liar(columns(NAMES, KINDS), for_ever=True)) as dsn:
        looking = asyncio.create_task(demand(dsn, look_seconds=1.0))
        while not looking.done():
            await asyncio.wait({looking}, timeout=0.02)
            most = max(most, _memory_bytes())
        with pytest.raises(TryLater):
            await looking

    assert most - before < 20_000_000


def _memory_bytes() -> int:
    """What is resident: libpq's memory is none of Python's."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
