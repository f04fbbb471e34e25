"""What a machine has written: asked for at the market, fetched a moment later from storage that wants no key."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from fleetagent.sim.marketplace.calls import Call
from fleetagent.sim.marketplace.errors import invalid_args
from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.marketplace.rows import status_message

READY_AFTER_S = 0.5
TAIL = 1_000
TWO_KEYS = "<Error><Code>InvalidArgument</Code><Message>Only one auth mechanism allowed</Message></Error>"
NO_SUCH_KEY = "<Error><Code>NoSuchKey</Code></Error>"


@dataclass(frozen=True, slots=True)
class _Upload:
    text: str
    ready_wall: float


class Logs:
    """The uploads of one market."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._uploads: dict[str, _Upload] = {}

    async def request(self, call: Call) -> Response:
        """`PUT /instances/request_logs/{id}`: where the log will be."""
        body = await call.body()
        machine = call.market.owned(call.account, call.id)
        for name in ("tail", "filter", "daemon_logs"):
            if not isinstance(body.get(name, ""), str):
                raise invalid_args(f"{name} must be a string")
        tail, wanted = body.get("tail", str(TAIL)), body.get("filter", "")
        if not tail.isdigit():
            raise invalid_args("tail must be a number")
        lines = [line for line in self._lines(machine, daemon=body.get("daemon_logs") == "true") if wanted in line]
        text = "\n".join(lines[-int(tail) :]) + "\n"
        wall = self._market.clock.wall()
        token = hashlib.sha256(f"{call.id}:{len(self._uploads)}:{wall}".encode()).hexdigest()[:32]
        ready_wall = float("inf") if call.fault == "never_ready" else wall + READY_AFTER_S
        self._uploads[token] = _Upload(text, ready_wall)
        return JSONResponse({"success": True, "result_url": f"{call.request.base_url}storage/{token}.log"})

    async def fetch(self, request: Request) -> Response:
        """The text, once it is there. Storage has its own keys: a request that shows another is refused."""
        if "authorization" in request.headers:
            return PlainTextResponse(TWO_KEYS, HTTPStatus.BAD_REQUEST, media_type="application/xml")
        upload = self._uploads.get(request.path_params["token"])
        if upload is None or self._market.clock.wall() < upload.ready_wall:
            return PlainTextResponse(NO_SUCH_KEY, HTTPStatus.NOT_FOUND, media_type="application/xml")
        return PlainTextResponse(upload.text)

    def _lines(self, machine: Machine, *, daemon: bool) -> Iterator[str]:
        now = self._market.clock.market()
        for step in machine.timeline.steps:
            if step.at <= now and (daemon or step.status == "running"):
                yield f"[{step.at - machine.created_at:.0f} s] {step.status or 'provisioning'}"
        if daemon:
            yield from (status_message(machine, now) or "").splitlines()
            return
        yield f"image {machine.order.image}, {len(machine.order.env)} variables"
        worker = machine.worker
        if worker.boots:
            yield f"boot {worker.boots}: {worker.state} after {worker.calls} calls"
        if worker.last_error:
            yield f"last error: {worker.last_error}"
