"""A market whose answers a test writes itself, byte for byte, and rows as the real one sends them."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from fleetagent.adapters.vast import NO_LIMITS, Endpoint, Limit, Pacer, SearchMemory, VastMarket, VastMarkets
from fleetagent.domain.fleet import Order

KEY = "key-of-the-test-0123456789"
Handler = Callable[[httpx.Request], httpx.Response]


class Time:
    """A clock that only moves when somebody sleeps on it, or a test moves it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)  # others go on meanwhile, as they would
        self.now += seconds


class Recorded:
    """Answers by the test's handler, and keeps what was asked."""

    def __init__(self, handler: Handler) -> None:
        self.requests: list[httpx.Request] = []
        self._handler = handler

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._handler(request)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


def a_pacer(time: Time | None = None, limits: Mapping[Endpoint, Limit] = NO_LIMITS) -> Pacer:
    time = time or Time()
    return Pacer(limits, clock=time, wall_clock=time, sleep=time.sleep)


def markets_on(handler: Handler, *, pacer: Pacer | None = None, time: Time | None = None) -> VastMarkets:
    time = time or Time()
    http = httpx.AsyncClient(transport=httpx.MockTransport(handler))
    return VastMarkets(http, pacer or a_pacer(time), SearchMemory(clock=time))


def a_market(handler: Handler, *, key: str = KEY, base_url: str = "http://market.test") -> VastMarket:
    return markets_on(handler).market(api_key=key, base_url=base_url, worker_url_env="FLEETAGENT_URL")


def always(*answers: Any, status: int = 200) -> Recorded:
    """The answers one after another, the last one for ever; text is sent as it is, everything else as JSON."""
    left: Iterator[Any] = iter(answers)
    last = [answers[0]]

    def handler(_: httpx.Request) -> httpx.Response:
        last[0] = answer = next(left, last[0])
        if isinstance(answer, httpx.Response):
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        content = answer if isinstance(answer, str | bytes) else json.dumps(answer)
        return httpx.Response(status, content=content)

    return Recorded(handler)


def failing(error: type[httpx.HTTPError]) -> Recorded:
    """A way to the market that breaks in this manner each time."""

    def handler(request: httpx.Request) -> httpx.Response:
        if issubclass(error, httpx.RequestError):
            raise error("it broke", request=request)
        raise error("it broke")

    return Recorded(handler)


def an_order(**changes: Any) -> Order:
    values: dict[str, Any] = {
        "offer_id": "4711",
        "label": "fa/abc/1",
        "image": "example/curio-prover:latest",
        "disk_gb": 250,
        "env": {"FLEETAGENT_URL": "http://workers.test/workers/secret-token-of-a-machine"},
        "onstart": "",
    }
    return Order(**(values | changes))


def an_offer_row(**changes: Any) -> dict[str, Any]:
    """A quarter of a large host, as the wire shows it: memory and cores are the whole host's."""
    row = {
        "id": 4711,
        "ask_contract_id": 4711,
        "machine_id": 99,
        "host_id": 7,
        "gpu_name": "RTX 5090",
        "num_gpus": 1,
        "gpu_frac": 0.25,
        "gpu_ram": 32607,
        "cpu_ram": 1_024_000,
        "cpu_cores": 128,
        "cpu_cores_effective": 32.0,
        "disk_space": 900.5,
        "inet_down": 812.3,
        "cuda_max_good": 13.0,
        "reliability": 0.99,
        "reliability2": 0.991,
        "dph_base": 0.5,
        "dph_total": 0.55,
        "storage_cost": 0.144,
        "verification": "verified",
        "rentable": True,
        "rented": False,
        "is_bid": False,
        "geolocation": "Sofia, BG",
        "country_code": "BG",
    }
    return row | changes


def a_machine_row(machine_id: int = 50_300_001, **changes: Any) -> dict[str, Any]:
    row = {
        "id": machine_id,
        "label": f"fa/abc/{machine_id}",
        "actual_status": "running",
        "status_msg": "success, running example/curio-prover/args",
        "machine_id": 99,
        "gpu_name": "RTX 5090",
        "num_gpus": 1,
        "gpu_frac": 1.0,
        "cpu_ram": 257_000,
        "cpu_cores": 64,
        "cpu_cores_effective": 64.0,
        "dph_total": 0.55,
        "extra_env": [["FLEETAGENT_URL", "http://workers.test/workers/token"], ["MIN_RATE", "50"]],
    }
    return row | changes


def a_page(*rows: Any, total: int | None = None, token: str | None = None, **changes: Any) -> dict[str, Any]:
    page = {
        "success": True,
        "instances_found": len(rows),
        "total_instances": len(rows) if total is None else total,
        "label_counts": {},
        "next_token": token,
        "instances": list(rows),
    }
    return page | changes
