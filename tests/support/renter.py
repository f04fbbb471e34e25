"""A renter on the simulated market, and an operator that hears its workers: what the market's tests have in common."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetagent.sim.marketplace import MarketplaceConfig, RunningMarketplace, running

KEY, OTHER_KEY = "key-a", "key-b"
DEADLINE_S = 20.0
CHEAPEST = {
    "gpu_name": {"eq": "RTX 5090"},
    "allocated_storage": 250,
    "disk_space": {"gte": 250},
    "order": [["dph_total", "asc"]],
}


@dataclass(slots=True)
class Renter:
    """A client of the market that reads nothing into its answers."""

    http: httpx.AsyncClient

    async def offer(self) -> dict[str, Any]:
        response = await self.http.post("/api/v0/bundles/", json=CHEAPEST)
        offer: dict[str, Any] = response.json()["offers"][0]
        return offer

    async def create(self, ask: int | None = None, **changes: Any) -> httpx.Response:
        ask_id = (await self.offer())["id"] if ask is None else ask
        body = {"client_id": "me", "image": "example/prover:1", "disk": 250, "cancel_unavail": True, "label": "fa/x/1"}
        return await self.http.put(f"/api/v0/asks/{ask_id}/", json=body | changes)

    async def rent(self, **changes: Any) -> int:
        response = await self.create(**changes)
        assert response.status_code == 200, response.text
        return int(response.json()["new_contract"])

    async def listing(self, **params: Any) -> dict[str, Any]:
        response = await self.http.get("/api/v1/instances/", params={"limit": 25} | params)
        found: dict[str, Any] = response.json()
        return found

    async def ids(self) -> list[int]:
        return [row["id"] for row in (await self.listing())["instances"]]

    async def one(self, contract: int) -> dict[str, Any] | None:
        response = await self.http.get(f"/api/v0/instances/{contract}/")
        row: dict[str, Any] | None = response.json()["instances"]
        return row

    async def destroy(self, contract: int) -> httpx.Response:
        return await self.http.request("DELETE", f"/api/v0/instances/{contract}/", json={})

    async def faults(self, faults: dict[str, Any]) -> None:
        (await self.http.put("/_sim/faults", json=faults)).raise_for_status()

    async def advance(self, seconds: float) -> None:
        (await self.http.post("/_sim/clock", json={"advance_seconds": seconds})).raise_for_status()

    async def state(self) -> dict[str, Any]:
        state: dict[str, Any] = (await self.http.get("/_sim/state")).json()
        return state

    async def worker(self) -> dict[str, Any]:
        """What the program in the only machine has done."""
        (machine,) = (await self.state())["machines"]
        worker: dict[str, Any] = machine["worker"]
        return worker

    async def worker_is(self, state: str) -> bool:
        return bool((await self.worker())["state"] == state)

    async def worker_met(self, error: str) -> bool:
        return error in ((await self.worker())["last_error"] or "")


@asynccontextmanager
async def a_renter(market: RunningMarketplace, key: str = KEY) -> AsyncIterator[Renter]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=market.url, headers=headers, timeout=10) as http:
        yield Renter(http)


@asynccontextmanager
async def a_market(**changes: Any) -> AsyncIterator[Renter]:
    """A reliable market that stands still, and somebody with its first key."""
    settings: dict[str, Any] = {"reliable": True, "moving": False, "api_keys": (KEY, OTHER_KEY)} | changes
    config = MarketplaceConfig(**settings)
    async with running(config) as market, a_renter(market) as renter:
        yield renter


@dataclass(slots=True)
class Operator:
    """Hears workers, as the operator does; answers what `answer` says."""

    url: str = ""
    heard: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answer: Callable[[str, dict[str, Any]], tuple[int, dict[str, Any]]] = lambda _call, _body: (200, {})

    def calls(self) -> list[str]:
        return [call for call, _ in self.heard]


def politely(call: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    match call:
        case "register":
            return 200, {"uuid": f"uuid-of-{body['label']}", "runner_id": 1}
        case "bench-done":
            return 200, {"ok": True, "passed": True}
        case _:
            return 200, {"ok": True}


@asynccontextmanager
async def an_operator(
    answer: Callable[[str, dict[str, Any]], tuple[int, dict[str, Any]]] = politely, port: int = 0
) -> AsyncIterator[Operator]:
    operator = Operator(answer=answer)

    async def hear(request: Request) -> Response:
        call, body = request.path_params["call"], await request.json()
        operator.heard.append((call, body))
        status, said = operator.answer(call, body)
        return JSONResponse(said, status)

    listener = socket.create_server(("127.0.0.1", port))
    operator.url = f"http://127.0.0.1:{listener.getsockname()[1]}/workers/secret"
    app = Starlette(routes=[Route("/workers/secret/{call}", hear, methods=["POST"])])
    server = uvicorn.Server(
        uvicorn.Config(app, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server._serve([listener]))
    try:
        yield operator
    finally:
        server.should_exit = True
        await serving


async def until(happened: Callable[[], Any]) -> None:
    """Wait for a state; a coroutine function may ask a server for it."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            value = happened()
            if await value if asyncio.iscoroutine(value) else value:
                return
            await asyncio.sleep(0.02)
