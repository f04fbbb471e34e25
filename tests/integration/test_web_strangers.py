"""What the page's listener puts up with: people may stay for long, strangers who ask for nothing may not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest

from fleetagent.entrypoints import listen
from fleetagent.entrypoints.guarded import PEOPLE_OF_A_PEER, Crowd, patient
from fleetagent.entrypoints.listen import listening
from fleetagent.entrypoints.web.page import live
from support.door import ADMIN
from support.page import Premises

HEAD = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PATIENCE_SECONDS = 0.4
SAYS = {
    "nothing": (b"", b""),
    "half a head, a line at a time": (HEAD, b"X: y\r\n"),
    "a whole request, then half of another one": (HEAD + b"\r\n" + HEAD, b"X: y\r\n"),
    "a request whose body never ends": (HEAD + b"Content-Length: 60000\r\n\r\n", b"x"),
}


@contextlib.asynccontextmanager
async def a_page(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of a page that has less patience than usual."""
    monkeypatch.setattr(listen, "_for_people", lambda: {"http": patient(Crowd(longest_seconds=PATIENCE_SECONDS))})
    premises = Premises()
    async with listening(premises.app, "127.0.0.1", 0, what="FLEETAGENT_WEB_LISTEN") as port, premises.live:
        yield port


@pytest.mark.parametrize(("first", "again"), SAYS.values(), ids=SAYS.keys())
async def test_who_asks_for_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch, first: bytes, again: bytes) -> None:
    async with a_page(monkeypatch) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)

        async def drip() -> None:
            while True:
                await asyncio.sleep(PATIENCE_SECONDS / 8)
                writer.write(again)

        dripping = asyncio.create_task(drip())
        try:
            async with asyncio.timeout(20):
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
        finally:
            dripping.cancel()
            writer.close()


async def test_who_watches_stays_for_as_long_as_they_like(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_page(monkeypatch) as port, httpx.AsyncClient(trust_env=False) as client:
        events = f"http://127.0.0.1:{port}/agents/ours/porep/events"
        async with client.stream("GET", events, headers={"authorization": f"Bearer {ADMIN}"}) as stream:
            parts = stream.aiter_text()
            assert await anext(parts) == live.BEGUN
            assert await anext(parts) == live.CHANGED
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS * 5):
                    await anext(parts)


async def test_one_peer_is_given_many_connections_and_not_all(unused_tcp_port: int) -> None:
    premises = Premises()
    async with listening(premises.app, "127.0.0.1", unused_tcp_port, what="FLEETAGENT_WEB_LISTEN"):
        held = [await asyncio.open_connection("127.0.0.1", unused_tcp_port) for _ in range(PEOPLE_OF_A_PEER + 1)]
        ends = [asyncio.ensure_future(reader.read()) for reader, _ in held]
        ended, _ = await asyncio.wait(ends, timeout=5, return_when=asyncio.FIRST_COMPLETED)

        assert len(ended) == 1
        for _, writer in held:
            writer.close()
        await asyncio.gather(*ends, return_exceptions=True)
