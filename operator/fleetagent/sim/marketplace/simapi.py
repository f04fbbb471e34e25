"""The simulator's own paths below `/_sim/`, apart from the market's and without a key.

- `GET`, `PUT`, `DELETE /_sim/faults`: see `faults.py`
- `GET /_sim/state`: every machine that ever was, and the counters
- `POST /_sim/machines`: a hand-made machine; all optional: label, account_id, status, gpu_name, env, image, disk_gb
- `POST /_sim/machines/{id}/fail` `{"status": "exited", "status_msg": null}`: any word, known or not
- `POST /_sim/machines/{id}/offline` `{"seconds": null}`: market seconds until it is back; null: for good
- `POST /_sim/machines/{id}/outbid` `{"seconds": null}`: the same, taken by a higher bid
- `POST /_sim/machines/{id}/flap` `{"every_seconds": 2, "times": 10, "status": "offline"}`: market seconds
- `POST /_sim/machines/{id}/price` `{"factor": 1.2, "pending": true}`: the host asks for more; not pending: so it is now
- `POST /_sim/machines/{id}/row` `{"status_msg": "…"}`: fields that its row shows instead of the truth
- `POST /_sim/machines/{id}/destroy`: somebody ends it elsewhere
- `PUT /_sim/accounts/{id}` `{"credit_usd": n}`: what is left from now on
- `POST /_sim/clock` `{"advance_seconds": n}`: market time jumps
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetagent.sim.marketplace.books import set_credit
from fleetagent.sim.marketplace.faults import Faults
from fleetagent.sim.marketplace.machines import Machine, Order
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.marketplace.state import machine_state, market_state
from fleetagent.sim.marketplace.timeline import Step, Timeline
from fleetagent.sim.marketplace.wishes import flap, take_away


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class HandMade(_Strict):
    """A machine that somebody rented without us."""

    label: str | None = None
    account_id: int | None = None
    status: str | None = "running"
    gpu_name: str | None = None
    image: str = "example/notebook:latest"
    disk_gb: float = Field(default=50.0, ge=8)
    env: dict[str, str] = {}


class Failing(_Strict):
    """The state that a machine falls into."""

    status: str | None = "exited"
    status_msg: str | None = None


class Away(_Strict):
    """How long the host is away, in market seconds."""

    seconds: float | None = Field(default=None, gt=0)


class Flapping(_Strict):
    """How often it comes and goes."""

    every_seconds: float = Field(default=2.0, gt=0)
    times: int = Field(default=10, ge=1, le=10_000)
    status: str = "offline"


class Dearer(_Strict):
    """What the host wants."""

    factor: float = Field(default=1.2, gt=0)
    pending: bool = True


class Credit(_Strict):
    """What an account has."""

    credit_usd: float


class Advance(_Strict):
    """A jump of market time."""

    advance_seconds: float = Field(ge=0)


Body = TypeVar("Body", bound=BaseModel)
Handler = Callable[[Request], Awaitable[Response]]


class SimApi:
    """The switches behind the market."""

    def __init__(self, market: Market) -> None:
        self._market = market

    def routes(self) -> list[Route]:
        """All paths begin with `/_sim/`."""
        one = "/_sim/machines/{id:int}"
        return [
            Route("/_sim/faults", self._checked(self._get_faults), methods=["GET"]),
            Route("/_sim/faults", self._checked(self._put_faults), methods=["PUT"]),
            Route("/_sim/faults", self._checked(self._clear_faults), methods=["DELETE"]),
            Route("/_sim/state", self._checked(self._state), methods=["GET"]),
            Route("/_sim/machines", self._checked(self._add_machine), methods=["POST"]),
            Route(f"{one}/fail", self._checked(self._fail), methods=["POST"]),
            Route(f"{one}/offline", self._checked(self._offline), methods=["POST"]),
            Route(f"{one}/outbid", self._checked(self._outbid), methods=["POST"]),
            Route(f"{one}/flap", self._checked(self._flap), methods=["POST"]),
            Route(f"{one}/price", self._checked(self._price), methods=["POST"]),
            Route(f"{one}/row", self._checked(self._row), methods=["POST"]),
            Route(f"{one}/destroy", self._checked(self._destroy), methods=["POST"]),
            Route("/_sim/accounts/{id:int}", self._checked(self._credit), methods=["PUT"]),
            Route("/_sim/clock", self._checked(self._advance), methods=["POST"]),
        ]

    def _checked(self, handler: Handler) -> Handler:
        """A bad description is a 400 that says what is wrong, an unknown machine a 404."""

        async def endpoint(request: Request) -> Response:
            try:
                return await handler(request)
            except ValidationError as error:
                return JSONResponse({"error": "; ".join(_sentence(each) for each in error.errors())}, 400)
            except LookupError as error:
                return JSONResponse({"error": str(error.args[0])}, 404)

        return endpoint

    async def _get_faults(self, _request: Request) -> Response:
        return JSONResponse(self._market.board.shown())

    async def _put_faults(self, request: Request) -> Response:
        self._market.board.replace(await _read(request, Faults))
        return JSONResponse(self._market.board.shown())

    async def _clear_faults(self, _request: Request) -> Response:
        self._market.board.replace({})
        return JSONResponse(self._market.board.shown())

    async def _state(self, _request: Request) -> Response:
        return JSONResponse(market_state(self._market))

    async def _add_machine(self, request: Request) -> Response:
        wanted = await _read(request, HandMade)
        market = self._market
        account = next((each for each in market.accounts if wanted.account_id in {None, each.id}), None)
        host = next((each for each in market.free_hosts() if wanted.gpu_name in {None, each.gpu.name}), None)
        if account is None or host is None:
            raise LookupError("no such account" if account is None else "no free host with such a GPU")
        now = market.clock.market()
        order = Order(image=wanted.image, disk_gb=wanted.disk_gb, label=wanted.label, env=wanted.env)
        price = market.supply.usd_per_hour(host, now)
        machine = market.sign(account, host, order, price, timeline=Timeline([Step(now, wanted.status)]))
        machine.visible_from_wall = market.clock.wall()
        return self._shown(machine)

    async def _fail(self, request: Request) -> Response:
        how, machine = await _read(request, Failing), self._machine(request)
        self._market.replan(machine, Step(self._market.clock.market(), how.status, how.status_msg))
        return self._shown(machine)

    async def _offline(self, request: Request) -> Response:
        how, machine = await _read(request, Away), self._machine(request)
        take_away(self._market, machine, "offline", how.seconds)
        return self._shown(machine)

    async def _outbid(self, request: Request) -> Response:
        how, machine = await _read(request, Away), self._machine(request)
        take_away(self._market, machine, "stopped", how.seconds)
        return self._shown(machine)

    async def _flap(self, request: Request) -> Response:
        how, machine = await _read(request, Flapping), self._machine(request)
        flap(self._market, machine, how.status, every_s=how.every_seconds, times=how.times)
        return self._shown(machine)

    async def _price(self, request: Request) -> Response:
        how, machine = await _read(request, Dearer), self._machine(request)
        usd_per_hour = round(machine.usd_per_hour * how.factor, 4)
        if how.pending:
            self._market.rises.ask(machine, usd_per_hour, self._market.clock.wall())
        else:
            self._market.reprice(machine, usd_per_hour)
        return self._shown(machine)

    async def _row(self, request: Request) -> Response:
        machine = self._machine(request)
        machine.shown_as = TypeAdapter(dict[str, Any]).validate_json(await request.body() or b"{}")
        return self._shown(machine)

    async def _destroy(self, request: Request) -> Response:
        machine = self._machine(request)
        self._market.end(machine)
        return self._shown(machine)

    async def _credit(self, request: Request) -> Response:
        wanted = await _read(request, Credit)
        account = next((each for each in self._market.accounts if each.id == request.path_params["id"]), None)
        if account is None:
            raise LookupError("no such account")
        set_credit(self._market, account, wanted.credit_usd)
        return JSONResponse({"id": account.id, "credit_usd": self._market.credit_usd(account)})

    async def _advance(self, request: Request) -> Response:
        self._market.clock.advance((await _read(request, Advance)).advance_seconds)
        return JSONResponse({"market_seconds": self._market.clock.market()})

    def _machine(self, request: Request) -> Machine:
        machine = self._market.machines.get(int(request.path_params["id"]))
        if machine is None or not machine.live:
            raise LookupError("no such live machine")
        return machine

    def _shown(self, machine: Machine) -> Response:
        return JSONResponse(machine_state(self._market, machine))


async def _read(request: Request, shape: type[Body]) -> Body:
    return shape.model_validate_json(await request.body() or b"{}")


def _sentence(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {error['msg']}" if where else str(error["msg"])
