"""The paths of vast.ai's API: each call is let in, may meet its fault, and is handed to the market."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fleetagent.sim.marketplace import answers
from fleetagent.sim.marketplace.errors import (
    Refused,
    TooOften,
    bad_key,
    deprecated_list,
    insufficient_credit,
    invalid_args,
    no_such_ask,
)
from fleetagent.sim.marketplace.listing import page
from fleetagent.sim.marketplace.machines import Machine, instance_row
from fleetagent.sim.marketplace.market import Account, Market
from fleetagent.sim.marketplace.offers import Row
from fleetagent.sim.marketplace.pacing import Pacer

SLOW_S = 30.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call by an account, with the name of the fault that it meets (or none)."""

    request: Request
    account: Account
    fault: str

    @property
    def id(self) -> int:
        """The offer or instance in the path."""
        return int(self.request.path_params["id"])

    async def body(self) -> dict[str, Any]:
        """The JSON object that was sent; an empty body is an empty object."""
        try:
            body = json.loads(await self.request.body() or b"{}")
        except ValueError:
            raise invalid_args("the body is not JSON") from None
        if not isinstance(body, dict):
            raise invalid_args("the body must be a JSON object")
        return body


Handler = Callable[[Call], Awaitable[Response]]


class Api:
    """vast.ai's endpoints over one market."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._pacer = Pacer(enabled=market.config.rate_limits, searches_per_day=market.config.searches_per_day)

    def routes(self) -> list[Route]:
        """Paths end in a slash, as the real ones do."""
        one = "/api/v0/instances/{id:int}/"
        return [
            self._route("/api/v0/bundles/", "POST", "search", self._search),
            self._route("/api/v0/asks/{id:int}/", "PUT", "create", self._create),
            self._route("/api/v1/instances/", "GET", "list", self._list),
            self._route("/api/v0/instances/", "GET", "old_list", self._old_list),
            self._route(one, "GET", "show", self._show),
            self._route(one, "PUT", "update", self._update),
            self._route(one, "DELETE", "destroy", self._destroy),
            self._route("/api/v0/users/current/", "GET", "account", self._account),
        ]

    def _route(self, path: str, method: str, name: str, handler: Handler) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                return await self._admitted(request, name, handler)
            except Refused as refusal:
                return JSONResponse(refusal.body, refusal.status)
            except TooOften as too_often:
                return self._too_often(too_often)

        return Route(path, endpoint, methods=[method])

    async def _admitted(self, request: Request, name: str, handler: Handler) -> Response:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise bad_key()
        account = self._market.account(key.strip())
        self._market.calls[name] += 1
        self._pacer.admit(account.id, name, self._market.clock.wall())
        fault = self._market.board.take(name)
        kind = fault.kind if fault is not None else ""
        seconds = fault.seconds if fault is not None else None
        early = await answers.instead(kind, seconds)
        if early is not None:
            return early
        answer = await handler(Call(request, account, kind))
        if kind == "slow":  # what was asked for has happened; only the answer is late
            await asyncio.sleep(SLOW_S if seconds is None else seconds)
        return answer

    def _too_often(self, refusal: TooOften) -> Response:
        headers = {"Retry-After": str(int(refusal.retry_after_s) + 1)} if self._market.config.retry_after else None
        return PlainTextResponse(refusal.text, 429, headers=headers)

    async def _search(self, call: Call) -> Response:
        offers = self._market.search(await call.body(), filtered=call.fault != "ignores_filter")
        return JSONResponse({"offers": [] if call.fault == "no_offers" else offers})

    async def _create(self, call: Call) -> Response:
        body = await call.body()
        match call.fault:
            case "no_such_ask_404" | "no_such_ask_410" | "no_such_ask_400":
                raise no_such_ask(call.id, ("404", "410", "400").index(call.fault[-3:]))
            case "insufficient_credit":
                raise insufficient_credit()
            case _:
                machine = self._market.create(
                    call.account, call.id, body, price_factor=1.5 if call.fault == "dearer" else 1.0
                )
        match call.fault:
            case "created_then_504":
                return HTMLResponse(answers.GATEWAY_TIMEOUT, 504)
            case "created_then_reset":
                call.request.state.reset_connection()
                return Response()  # nobody is left to read it
            case "created_then_no_id":
                return JSONResponse({"success": True})
            case "created_then_error_with_id":
                return JSONResponse(
                    {"success": False, "error": "start_failed", "msg": "could not start", "new_contract": machine.id},
                    400,
                )
            case _:
                key = hashlib.sha256(f"instance {machine.id}".encode()).hexdigest()
                return JSONResponse({"success": True, "new_contract": machine.id, "instance_api_key": key})

    async def _list(self, call: Call) -> Response:
        machines = self._market.visible(call.account)
        match call.fault:
            case "http_410":
                raise deprecated_list()
            case "deprecated_200":
                return JSONResponse(deprecated_list().body)
            case "null_instances":
                return JSONResponse({"success": True, "instances": None})
            case "empty_list":
                machines = []
            case "partial":
                machines = machines[1:]
            case _:
                pass
        found = page([self._row(machine) for machine in machines], call.request.query_params)
        if call.fault == "half_page":
            half = found["instances"][: len(found["instances"]) // 2]
            found |= {"instances": half, "instances_found": len(half), "next_token": None}
        return JSONResponse(found)

    async def _old_list(self, _call: Call) -> Response:
        raise deprecated_list()

    async def _show(self, call: Call) -> Response:
        shown = [
            machine
            for machine in self._market.visible(call.account)
            if machine.id == call.id and call.fault != "null_instance"
        ]
        return JSONResponse({"instances": self._row(shown[0]) if shown else None})

    async def _update(self, call: Call) -> Response:
        body = await call.body()
        if call.fault != "ignored":
            self._market.update(call.account, call.id, body)
        return JSONResponse({"success": True, "msg": "instance updated"})

    async def _destroy(self, call: Call) -> Response:
        await call.body()
        if call.fault != "ignored":
            self._market.destroy(call.account, call.id)
        if call.fault == "destroyed_then_504":
            return HTMLResponse(answers.GATEWAY_TIMEOUT, 504)
        return JSONResponse({"success": True})

    async def _account(self, call: Call) -> Response:
        number = call.account.id + (1_000 if call.fault == "other_account" else 0)
        return JSONResponse(answers.account(number, round(self._market.credit_usd(call.account), 6)))

    def _row(self, machine: Machine) -> Row:
        return instance_row(machine, market_s=self._market.clock.market(), wall_s=self._market.clock.wall())
