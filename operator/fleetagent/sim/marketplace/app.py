"""The paths of vast.ai's API, and the calls that are about offers and the account.

Paths end in a slash, as the real ones do; those that the official client calls without one are there twice.
"""

import hashlib

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetagent.sim.marketplace import answers, contracts
from fleetagent.sim.marketplace.calls import Call, Gate, object_in
from fleetagent.sim.marketplace.errors import (
    insufficient_credit,
    invalid_args,
    no_such_ask,
    search_quota_exceeded,
    spend_rate_limit,
)
from fleetagent.sim.marketplace.logs import Logs
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.marketplace.pacing import DAY_S

LATE_S = 600.0
GONE = ("404", "410", "400", "409", "200")


def routes(market: Market) -> list[Route]:
    """Every path of the market, and where the logs are fetched, which is no path of the API."""
    gate, logs = Gate(market), Logs(market)
    v0, instances, one = "/api/v0", "/api/v0/instances", "/api/v0/instances/{id:int}/"
    return [
        gate.route(f"{v0}/bundles/", "POST", "search", search),
        gate.route(f"{v0}/bundles/", "GET", "search", search_by_query),
        gate.route(f"{v0}/bundles", "GET", "search", search_by_query),
        gate.route(f"{v0}/search/asks/", "PUT", "search", search_asks),
        gate.route(f"{v0}/asks/bulk/", "POST", "create_many", create_many),
        gate.route(f"{v0}/asks/{{id:int}}/", "PUT", "create", create),
        gate.route(f"{v0}/users/current/", "GET", "account", account),
        gate.route(f"{v0}/users/current", "GET", "account", account),
        gate.route("/api/v1/instances/", "GET", "list", contracts.listing),
        gate.route(f"{instances}/", "GET", "old_list", contracts.old_listing),
        gate.route(f"{instances}/", "PUT", "update", contracts.update_many),
        gate.route(f"{instances}/", "DELETE", "destroy_many", contracts.destroy_many),
        gate.route(f"{instances}/start", "POST", "start_many", contracts.start_many),
        gate.route(f"{instances}/start/", "POST", "start_many", contracts.start_many),
        gate.route(f"{instances}/filters/", "GET", "filters", contracts.filters),
        gate.route(f"{instances}/reboot/{{id:int}}/", "PUT", "reboot", contracts.reboot),
        gate.route(f"{instances}/recycle/{{id:int}}/", "PUT", "reboot", contracts.recycle),
        gate.route(f"{instances}/pending-price-increases/", "GET", "price_rises", contracts.price_rises),
        gate.route(f"{instances}/accept-price-increase/", "PUT", "price_answer", contracts.accept_price),
        gate.route(f"{instances}/reject-price-increase/", "PUT", "price_answer", contracts.reject_price),
        gate.route(f"{instances}/request_logs/{{id:int}}", "PUT", "logs", logs.request),
        gate.route(f"{instances}/request_logs/{{id:int}}/", "PUT", "logs", logs.request),
        Route("/storage/{token}.log", logs.fetch, methods=["GET"]),
        gate.route(one, "GET", "show", contracts.show),
        gate.route(one, "PUT", "update", contracts.update),
        gate.route(one, "DELETE", "destroy", contracts.destroy),
    ]


async def search(call: Call) -> Response:
    """`POST /bundles/`."""
    return _offers(call, await call.body())


async def search_by_query(call: Call) -> Response:
    """`GET /bundles?q=<json>`."""
    return _offers(call, object_in(call.request.query_params.get("q", "{}")))


async def search_asks(call: Call) -> Response:
    """`PUT /search/asks/`: the same query, one level down."""
    query = (await call.body()).get("q", {})
    if not isinstance(query, dict):
        raise invalid_args("q must be a JSON object")
    return _offers(call, query)


def _offers(call: Call, query: dict[str, object]) -> Response:
    if call.fault == "quota":
        raise search_quota_exceeded((call.market.clock.wall() // DAY_S + 1) * DAY_S)
    rows = call.market.search(
        query, filtered=call.fault != "ignores_filter", price_factor=1.5 if call.fault == "dearer" else 1.0
    )
    return answers.LooseJSONResponse({"offers": [] if call.fault == "no_offers" else call.shown(rows, offers=True)})


async def create(call: Call) -> Response:
    """`PUT /asks/{id}/`."""
    body = await call.body()
    match call.fault:
        case "no_such_ask_404" | "no_such_ask_410" | "no_such_ask_400" | "no_such_ask_409" | "no_such_ask_200":
            raise no_such_ask(call.id, GONE.index(call.fault[-3:]))
        case "insufficient_credit":
            raise insufficient_credit()
        case "spend_rate_limit":
            raise spend_rate_limit()
        case _:
            pass
    late_s = LATE_S if call.switch.seconds is None else call.switch.seconds
    machine = call.market.create(
        call.account,
        call.id,
        body,
        price_factor=1.5 if call.fault == "dearer" else 1.0,
        other_gpu=call.fault == "other_gpu",
        late_s=late_s if call.fault == "created_late" else 0.0,
    )
    match call.fault:
        case "created_then_504" | "created_late":
            return answers.gateway_timeout()
        case "created_then_reset":
            return call.reset()
        case "created_then_no_id":
            return JSONResponse({"success": True})
        case "created_then_error_with_id":
            failed = {"success": False, "error": "start_failed", "msg": "could not start", "new_contract": machine.id}
            return JSONResponse(failed, 400)
        case _:
            key = hashlib.sha256(f"instance {machine.id}".encode()).hexdigest()
            return JSONResponse({"success": True, "new_contract": machine.id, "instance_api_key": key})


async def create_many(_call: Call) -> Response:
    """`POST /asks/bulk/`: one order would make many machines with one label, so nobody here may use it."""
    raise invalid_args("this simulator creates one machine a call: PUT /api/v0/asks/{id}/")


async def account(call: Call) -> Response:
    """`GET /users/current/`."""
    number = call.account.id + (1_000 if call.fault == "other_account" else 0)
    credit = call.market.credit_usd(call.account)
    spent = call.market.granted_usd[call.account.id] - credit
    return JSONResponse(answers.account(number, round(credit, 6), round(spent, 6)))
