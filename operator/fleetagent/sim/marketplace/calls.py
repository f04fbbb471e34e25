"""One call of the API: let in by key and pace, met by its fault or handed to its handler."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetagent.sim.marketplace import answers
from fleetagent.sim.marketplace.books import settle
from fleetagent.sim.marketplace.errors import Refused, TooOften, bad_key, invalid_args
from fleetagent.sim.marketplace.faults import Switch
from fleetagent.sim.marketplace.market import Account, Market
from fleetagent.sim.marketplace.odd import hostile, odd_numbers
from fleetagent.sim.marketplace.offers import Row
from fleetagent.sim.marketplace.pacing import Pacer
from fleetagent.sim.marketplace.rows import instance_row

NO_FAULT = Switch(kind="")


@dataclass(frozen=True, slots=True)
class Call:
    """One call by an account, with the fault that it meets (or none)."""

    market: Market
    request: Request
    account: Account
    switch: Switch

    @property
    def fault(self) -> str:
        """The name of its fault; empty when all is well."""
        return self.switch.kind

    @property
    def id(self) -> int:
        """The offer or instance in the path."""
        return int(self.request.path_params["id"])

    async def body(self) -> dict[str, Any]:
        """The JSON object that was sent; an empty body is an empty object."""
        return object_in(await self.request.body() or b"{}")

    def instances(self) -> list[Row]:
        """All rows that this account sees."""
        now, wall = self.market.clock.market(), self.market.clock.wall()
        return [instance_row(m, market_s=now, wall_s=wall) for m in self.market.visible(self.account)]

    def shown(self, rows: list[Row], *, offers: bool = False) -> list[Row]:
        """The rows as they leave: with the fields that lie, on demand."""
        lies = self.market.board.faults.rows
        rows = [row | (lies.offers if offers else lies.instances) for row in rows]
        match self.fault:
            case "hostile":
                return hostile(rows)
            case "odd_numbers":
                return odd_numbers(rows)
            case _:
                return rows

    def reset(self) -> Response:
        """Cut the connection; what is returned reaches nobody."""
        self.request.state.reset_connection()
        return Response()


Handler = Callable[[Call], Awaitable[Response]]


def object_in(text: bytes | str) -> dict[str, Any]:
    """A JSON object, or the refusal of what is none."""
    try:
        body = json.loads(text)
    except ValueError:
        raise invalid_args("the body is not JSON") from None
    if not isinstance(body, dict):
        raise invalid_args("the body must be a JSON object")
    return body


class Gate:
    """Lets calls in: the key first, then the pace, then the fault that waits for them."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._pacer = Pacer(enabled=market.config.rate_limits, searches_per_day=market.config.searches_per_day)

    def route(self, path: str, method: str, name: str, handler: Handler) -> Route:
        """The path of one call; its name is that of its faults and its pace."""

        async def endpoint(request: Request) -> Response:
            try:
                return await self._admitted(request, name, handler)
            except Refused as refusal:
                return answers.as_response(refusal)
            except TooOften as too_often:
                return self._too_often(too_often)

        return Route(path, endpoint, methods=[method])

    async def _admitted(self, request: Request, name: str, handler: Handler) -> Response:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise bad_key()
        account = self._market.account(key.strip())
        settle(self._market)
        self._market.calls[name] += 1
        self._pacer.admit(key.strip(), name, self._market.clock.wall())
        switch = self._market.board.take(name) or NO_FAULT
        if switch.kind == "timeout":
            await _hold(switch, answers.TIMEOUT_S)
        early = answers.instead(switch)
        if early is not None:
            return early
        answer = await handler(Call(self._market, request, account, switch))
        if switch.kind == "slow":
            await _hold(switch, answers.SLOW_S)
        if switch.kind == "done_then_timeout":
            await _hold(switch, answers.TIMEOUT_S)
            return answers.gateway_timeout()
        return answer

    def _too_often(self, refusal: TooOften) -> Response:
        headers = {"Retry-After": str(int(refusal.retry_after_s) + 1)} if self._market.config.retry_after else None
        return PlainTextResponse(refusal.text, 429, headers=headers)


async def _hold(switch: Switch, usual_s: float) -> None:
    await asyncio.sleep(usual_s if switch.seconds is None else switch.seconds)
