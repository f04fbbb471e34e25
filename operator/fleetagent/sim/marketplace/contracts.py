"""The calls that are about machines already rented: list, show, change, destroy, restart, and their prices."""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from fleetagent.sim.marketplace import answers, wishes
from fleetagent.sim.marketplace.calls import Call
from fleetagent.sim.marketplace.errors import Refused, deprecated_list, invalid_args, not_found
from fleetagent.sim.marketplace.listing import page
from fleetagent.sim.marketplace.offers import Row
from fleetagent.sim.marketplace.orders import checked_state

MOST_AT_ONCE, MOST_STARTS = 64, 100
QUEUED_S = 600.0


async def listing(call: Call) -> Response:
    """`GET /api/v1/instances/`."""
    rows = call.instances()
    match call.fault:
        case "http_410":
            raise deprecated_list()
        case "deprecated_200":
            return JSONResponse(deprecated_list().body)
        case "null_instances":
            return JSONResponse({"success": True, "instances": None})
        case "empty_list":
            rows = []
        case "partial":
            rows = rows[1:]
        case "one_missing":
            rows = _one_missing(call, rows)
        case _:
            pass
    found = page(rows, call.request.query_params)
    if call.fault == "half_page":
        half = found["instances"][: len(found["instances"]) // 2]
        found |= {"instances": half, "instances_found": len(half), "next_token": None}
    return answers.LooseJSONResponse(found | {"instances": call.shown(found["instances"])})


def _one_missing(call: Call, rows: list[Row]) -> list[Row]:
    """Another one each time; the totals agree with what is shown."""
    if not rows:
        return rows
    left_out = call.market.draws.of("missing", call.market.calls["list"]).randrange(len(rows))
    return rows[:left_out] + rows[left_out + 1 :]


async def old_listing(_call: Call) -> Response:
    """`GET /instances/`: retired."""
    raise deprecated_list()


async def filters(call: Call) -> Response:
    """`GET /instances/filters/`: the values that a filter may name."""
    columns = ("actual_status", "gpu_name", "verification")
    values = {tuple(row[name] for name in columns) for row in call.instances()}
    found = [dict(zip(columns, each, strict=True)) for each in sorted(values, key=str)]
    return JSONResponse({"success": True, "filters": found})


async def show(call: Call) -> Response:
    """`GET /instances/{id}/`: one object below a plural key, null once it is gone."""
    found = [row for row in call.instances() if row["id"] == call.id and call.fault != "null_instance"]
    shown = call.shown(found)
    return answers.LooseJSONResponse({"instances": shown[0] if shown else None})


async def update(call: Call) -> Response:
    """`PUT /instances/{id}/`: a new label, or another state."""
    body = await call.body()
    if call.fault == "ignored":
        return _done(wishes.DONE)
    return _done(_updated(call, call.id, body))


async def update_many(call: Call) -> Response:
    """`PUT /instances/` with `ids`: one state for many."""
    body = await call.body()
    state, ids = {"state": checked_state(body.get("state"))}, _ids(body, "ids", MOST_AT_ONCE)
    return _for_each(ids, lambda contract: _updated(call, contract, state))


async def start_many(call: Call) -> Response:
    """`POST /instances/start` with `IDs`."""
    ids = _ids(await call.body(), "IDs", MOST_STARTS)
    return _for_each(ids, lambda contract: _updated(call, contract, {"state": "running"}))


def _updated(call: Call, contract: int, body: Mapping[str, Any]) -> str:
    machine = call.market.owned(call.account, contract)
    if not {"label", "state"} & set(body):
        raise invalid_args("nothing to change: send label or state")
    if "label" in body:
        call.market.relabel(machine, body["label"])
    if "state" not in body:
        return "instance label updated"
    usual = QUEUED_S if call.switch.seconds is None else call.switch.seconds
    queued_s = usual if call.fault == "queued" else None
    return wishes.set_state(call.market, call.account, machine, checked_state(body["state"]), queued_s=queued_s)


async def destroy(call: Call) -> Response:
    """`DELETE /instances/{id}/`."""
    await call.body()
    if call.fault != "ignored":
        call.market.destroy(call.account, call.id)
    return _destroyed(call) or JSONResponse({"success": True})


async def destroy_many(call: Call) -> Response:
    """`DELETE /instances/` with `instance_ids`."""
    ids = _ids(await call.body(), "instance_ids", MOST_AT_ONCE)
    if call.fault == "ignored":
        return _done(f"destroyed {len(ids)} instances")
    doomed = ids[: len(ids) // 2] if call.fault == "partly" else ids
    answer = _for_each(doomed, lambda contract: call.market.destroy(call.account, contract))
    return _destroyed(call) or answer


def _destroyed(call: Call) -> Response | None:
    match call.fault:
        case "destroyed_then_504":
            return answers.gateway_timeout()
        case "destroyed_then_reset":
            return call.reset()
        case _:
            return None


async def reboot(call: Call) -> Response:
    """`PUT /instances/reboot/{id}/`."""
    machine = call.market.owned(call.account, call.id)
    if call.fault != "ignored":
        wishes.reboot(call.market, machine)
    return _done("instance rebooting")


async def recycle(call: Call) -> Response:
    """`PUT /instances/recycle/{id}/`."""
    machine = call.market.owned(call.account, call.id)
    if call.fault != "ignored":
        wishes.recycle(call.market, machine)
    return _done("instance recycling")


async def price_rises(call: Call) -> Response:
    """`GET /instances/pending-price-increases/`."""
    return JSONResponse(call.market.rises.envelope(call.account.id))


async def accept_price(call: Call) -> Response:
    """`PUT /instances/accept-price-increase/`: the contract goes on after its end, at the new price."""
    return await _answered(call, "accepted")


async def reject_price(call: Call) -> Response:
    """`PUT /instances/reject-price-increase/`: it costs what it cost, and ends when it ends."""
    return await _answered(call, "rejected")


async def _answered(call: Call, answer: str) -> Response:
    rise = call.market.rises.find(call.account.id, await call.body())
    if call.fault != "ignored":
        rise.answer = answer
        if answer == "accepted":
            wishes.extend(call.market, rise.machine, rise.new_usd_per_hour)
    return JSONResponse({"success": True, "pending_price_increase_id": rise.id, "contract_id": rise.machine.id})


def _ids(body: Mapping[str, Any], name: str, most: int) -> list[int]:
    ids = body.get(name)
    if not isinstance(ids, list) or not all(isinstance(each, int) and not isinstance(each, bool) for each in ids):
        raise invalid_args(f"{name} must be a list of integers")
    if not 0 < len(ids) <= most:
        raise invalid_args(f"{name} must hold 1 to {most} ids")
    return ids


def _for_each(ids: list[int], act: Callable[[int], object]) -> Response:
    """Those that exist are acted upon; it is a refusal only when none does. What the market says then, is our guess."""
    refusals = []
    for contract in ids:
        try:
            act(contract)
        except Refused as refusal:
            refusals.append(refusal)
    if len(refusals) == len(ids):
        raise refusals[0] if ids else not_found(0)
    return _done(f"{len(ids) - len(refusals)} of {len(ids)} instances")


def _done(msg: str) -> Response:
    return JSONResponse({"success": True, "msg": msg})
