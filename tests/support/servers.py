"""Simulated market and model in this process, each in a thread with an event loop of its own: a test may block."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

import httpx

from fleetagent.sim import marketplace, model

T = TypeVar("T")
STARTED_WITHIN_S = 20.0

MARKET_KEY = "test-market-key"


@contextmanager
def in_a_thread(serving: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Serve until the block ends; what the context manager gives is handed over."""
    started: list[T] = []
    failed: list[BaseException] = []
    up = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        try:
            async with serving() as server:
                started.append(server)
                up.set()
                await over.wait()
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            up.set()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    up.wait(STARTED_WITHIN_S)
    if failed or not started:
        raise RuntimeError("the server did not start") from (failed[0] if failed else None)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(STARTED_WITHIN_S)


class Control:
    """The `/_sim` paths of a simulator, apart from what it simulates."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self._http = httpx.Client(base_url=base_url, timeout=20, trust_env=False)

    def get(self, path: str, **query: Any) -> Any:
        """What the simulator says."""
        return self._answer(self._http.get(f"/_sim/{path}", params=query))

    def put(self, path: str, body: Any = None) -> Any:
        """Set a switch."""
        return self._answer(self._http.put(f"/_sim/{path}", json=body))

    def post(self, path: str, body: Any = None) -> Any:
        """Do something to it."""
        return self._answer(self._http.post(f"/_sim/{path}", json=body))

    def delete(self, path: str) -> Any:
        """Clear a switch."""
        return self._answer(self._http.delete(f"/_sim/{path}"))

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    @staticmethod
    def _answer(response: httpx.Response) -> Any:
        response.raise_for_status()
        return response.json() if response.content else None


class Market(Control):
    """A simulated market."""

    def live(self) -> list[dict[str, Any]]:
        """Machines that exist now."""
        return [m for m in self.get("state")["machines"] if m.get("destroyed_at") is None]


class Model(Control):
    """A simulated model server; `url` is what a FleetAgent names."""

    def __init__(self, url: str, control_url: str) -> None:
        super().__init__(control_url)
        self.url = url

    def requests(self, after: int = 0) -> list[dict[str, Any]]:
        """What was asked, oldest first."""
        found: list[dict[str, Any]] = self.get("requests", after=after)
        return found


@contextmanager
def a_market(**config: Any) -> Iterator[Market]:
    """A market that keeps its promises, 600 times as fast as the world, unless told otherwise.

    Its offers stand still: so fast, a price would change while a model looks at it, once in a hundred runs.
    """
    told = {
        "seed": 7,
        "time_scale": 600.0,
        "reliable": True,
        "moving": False,
        "api_keys": (MARKET_KEY,),
        **config,
    }
    with in_a_thread(lambda: marketplace.running(marketplace.MarketplaceConfig(**told))) as server:
        market = Market(server.url)
        try:
            yield market
        finally:
            market.close()


@contextmanager
def a_model(**config: Any) -> Iterator[Model]:
    """A strict model server with the scripted policy."""
    with in_a_thread(lambda: model.running(model.ModelConfig(**config))) as server:
        client = Model(server.url, server.control_url)
        try:
            yield client
        finally:
            client.close()
